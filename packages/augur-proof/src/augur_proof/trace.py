"""Where in the network a difference starts.

augur runs beside the reference's record of the same tokens. Whatever differs is reported and then
replaced by the reference's value, so that every module and every op is given the reference's own
inputs: one that differs is wrong in itself, and one wrong thing is one finding, not a thousand.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from augur_gen import StaticKVCache
from augur_model import Attention, Linear, QwenForCausalLM, RMSNorm
from augur_proof.candidate import Candidate
from augur_proof.difference import Difference, difference
from augur_proof.errors import ProofError
from augur_proof.op_budget import OpBudget, judged_ops
from augur_proof.points import CACHED_KEYS, CACHED_VALUES, KEY, QUERY, Pass, Point, watched
from augur_proof.tolerance import Tolerance


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes:
        pass_label: during which forward pass.
        point: where.
        op: the op that computes it, as `augur_model.Ops` calls it; None where none does.
        first_position: the sequence position of the tensor's first token.
        difference: what came of it; held where the demand is met.
        budget: of the op's error, where it was judged by that.
    """

    pass_label: str
    point: Point
    op: str | None
    first_position: int
    difference: Difference
    budget: OpBudget | None = None


def trace(
    candidate: Candidate, passes: list[Pass], tolerance: Tolerance, *, budget: bool = False
) -> list[Finding]:
    """Run augur's network over the tokens of the reference's passes, and compare at every point.

    Args:
        candidate: what is on trial; as before when done.
        passes: what the reference computed, in order.
        tolerance: for one op on equal inputs.
        budget: judge ops that are not the reference's own by their error against float64 beside
            the plain op's; the tolerance is then between the plain op and the reference.

    Returns:
        one finding for each point of each pass, in order of execution.

    Raises:
        ProofError: the networks do not have the same modules and shapes.
    """
    model = candidate.model
    cache = StaticKVCache.for_model(model, sum(len(one.token_ids) for one in passes))
    tracer = _Tracer(tolerance, budget)
    with tracer.attached(model), torch.inference_mode():
        for one in passes:
            tracer.reference = one
            token_ids = torch.tensor([one.token_ids], device=model.device)
            model(token_ids, cache=cache, logits_to_keep=1)
    return tracer.findings


class _Tracer:
    """Hooks on augur's modules, and a table of ops that looks at what goes through it."""

    def __init__(self, tolerance: Tolerance, budget: bool) -> None:
        self.findings: list[Finding] = []
        self.reference = Pass("", [], 0, {})
        self._tolerance = tolerance
        self._budget = budget
        self._judged: dict[str, tuple[OpBudget, Tensor]] = {}
        self._attention = ""
        self._rotated_query = False

    @contextmanager
    def attached(self, model: QwenForCausalLM) -> Iterator[None]:
        """Look, while the block runs."""
        before = model.ops
        ops = judged_ops(before, self._keep) if self._budget else before

        def apply_rope(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            # The layer rotates its query first, then its key.
            part = KEY if self._rotated_query else QUERY
            self._rotated_query = True
            rotated = ops.apply_rope(heads, cos, sin)
            return self._judge(Point(self._attention, part), "apply_rope", rotated)

        def attention(query: Tensor, key: Tensor, value: Tensor, *how: Any) -> Tensor:
            key = self._judge(Point(self._attention, CACHED_KEYS), None, key)
            value = self._judge(Point(self._attention, CACHED_VALUES), None, value)
            return ops.attention(query, key, value, *how)

        def enter_attention(module: nn.Module, _args: Any) -> None:
            self._attention, self._rotated_query = names[module], False

        with watched(model, self._see) as names:
            hooks = [
                module.register_forward_pre_hook(enter_attention)
                for module in names
                if isinstance(module, Attention)
            ]
            model.ops = replace(ops, apply_rope=apply_rope, attention=attention)
            try:
                yield
            finally:
                model.ops = before
                for hook in hooks:
                    hook.remove()

    def _see(self, module: nn.Module, point: Point, ours: Tensor) -> Tensor:
        op = {"attention": "attention", "swiglu": "swiglu"}.get(point.part or "")
        if point.part is None and isinstance(module, Linear | RMSNorm):
            op = "linear" if isinstance(module, Linear) else "rms_norm"
        return self._judge(point, op, ours)

    def _keep(self, budget: OpBudget, plain: Tensor) -> None:
        self._judged[budget.op] = budget, plain

    def _judge(self, point: Point, op: str | None, ours: Tensor) -> Tensor:
        """Compare; give ours where it is equal, else the reference's value in its place."""
        reference = self.reference.values.get(point)
        if reference is None or reference.shape != ours.shape:
            theirs = "no such place" if reference is None else f"{list(reference.shape)} there"
            raise ProofError(
                f"{point} is {list(ours.shape)} in augur, and the reference has {theirs}: these "
                "are not two checkpoints of one model"
            )
        found = difference(ours, reference, self._tolerance)
        budget, plain = self._judged.pop(op or "", (None, ours))
        if budget is not None:
            if plain.shape != ours.shape:  # attention gives heads, which the module then joins
                plain = plain.transpose(1, 2).reshape(ours.shape)
            same = difference(plain, reference, self._tolerance).held
            found = replace(found, held=budget.held and same)
        # lm_head sees the last token alone, the cache all; the others the tokens fed.
        end = self.reference.past_length + len(self.reference.token_ids)
        position = end - ours.shape[-2]
        self.findings.append(Finding(self.reference.label, point, op, position, found, budget))
        # Equal values keep the layout in memory that augur gave them.
        return ours if found.num_differing == 0 else torch.empty_like(ours).copy_(reference)
