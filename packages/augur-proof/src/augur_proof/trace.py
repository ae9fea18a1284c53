"""Where in the network a difference starts.

augur runs beside the reference's record of the same tokens. Whatever differs is reported and then
replaced by the reference's value, so that every module and every op is given the reference's own
inputs: one that differs is wrong in itself, and one wrong thing is one finding, not a thousand.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from augur_gen import StaticKVCache
from augur_model import Linear, QwenForCausalLM, RMSNorm
from augur_proof.candidate import Candidate
from augur_proof.difference import Difference, difference
from augur_proof.errors import ProofError
from augur_proof.points import (
    CACHED_KEYS,
    CACHED_VALUES,
    KEY,
    QUERY,
    Point,
    compared_modules,
    input_point,
    output_points,
)
from augur_proof.recording import Pass
from augur_proof.tolerance import Tolerance


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes:
        pass_label: during which forward pass.
        point: where.
        op: the op that computes it, as `augur_model.Ops` calls it; None where none does.
        first_position: the sequence position of the tensor's first token.
        difference: what came of it.
    """

    pass_label: str
    point: Point
    op: str | None
    first_position: int
    difference: Difference


def trace(candidate: Candidate, passes: list[Pass], tolerance: Tolerance) -> list[Finding]:
    """Run augur's network over the tokens of the reference's passes, and compare at every point.

    Args:
        candidate: what is on trial; as before when done.
        passes: what the reference computed, in order.
        tolerance: for one op on equal inputs.

    Returns:
        one finding for each point of each pass, in order of execution.

    Raises:
        ProofError: the networks do not have the same modules and shapes.
    """
    model = candidate.model
    num_tokens = sum(len(one.token_ids) for one in passes)
    cache = StaticKVCache.for_model(model, num_tokens)
    tracer = _Tracer(model, tolerance)
    ops = model.ops
    handles = list(tracer.attach())
    try:
        for one in passes:
            tracer.start(one)
            token_ids = torch.tensor([one.token_ids], device=model.device)
            with torch.inference_mode():
                model(token_ids, cache=cache, logits_to_keep=1)
    finally:
        model.ops = ops
        for handle in handles:
            handle.remove()
    return tracer.findings


class _Tracer:
    """Hooks on augur's modules, and a table of ops that looks at what goes through it."""

    def __init__(self, model: QwenForCausalLM, tolerance: Tolerance) -> None:
        self.findings: list[Finding] = []
        self._model = model
        self._ops = model.ops
        self._tolerance = tolerance
        self._names = {module: name for name, module in compared_modules(model)}
        self._pass = Pass("", [], 0, {})
        self._attention = ""
        self._rotated_query = False

    def attach(self) -> Iterable[Any]:
        """Start to look; gives the handles of the hooks."""
        self._model.ops = replace(self._ops, apply_rope=self._apply_rope, attention=self._attend)
        for module in self._names:
            yield module.register_forward_pre_hook(self._before)
            yield module.register_forward_hook(self._after)

    def start(self, reference: Pass) -> None:
        """Compare with this pass from now on."""
        self._pass = reference

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        name = self._names[module]
        if name.endswith(".self_attn"):
            self._attention, self._rotated_query = name, False
        point = input_point(name)
        if point is None:
            return args
        op = point.part if point.part != "residual" else None
        return self._judge(point, op, args[0]), *args[1:]

    def _after(self, module: nn.Module, _args: Any, output: Any) -> Any:
        points = output_points(self._names[module])
        op = _op_of(module)
        if isinstance(output, tuple):
            return tuple(self._judge(*pair) for pair in _with_op(points, op, output))
        return self._judge(points[0], op, output)

    def _apply_rope(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # The layer rotates its query first, then its key.
        part = KEY if self._rotated_query else QUERY
        self._rotated_query = True
        rotated = self._ops.apply_rope(heads, cos, sin)
        return self._judge(Point(self._attention, part), "apply_rope", rotated)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
    ) -> Tensor:
        key = self._judge(Point(self._attention, CACHED_KEYS), None, key)
        value = self._judge(Point(self._attention, CACHED_VALUES), None, value)
        return self._ops.attention(query, key, value, mask, scale)

    def _judge(self, point: Point, op: str | None, ours: Tensor) -> Tensor:
        """Compare; give ours where it is equal, else the reference's value in its place."""
        reference = self._pass.values.get(point)
        if reference is None or reference.shape != ours.shape:
            theirs = "no such place" if reference is None else f"{list(reference.shape)} there"
            raise ProofError(
                f"{point} is {list(ours.shape)} in augur, and the reference has {theirs}: these "
                "are not two checkpoints of one model"
            )
        found = difference(ours, reference, self._tolerance)
        self.findings.append(
            Finding(self._pass.label, point, op, self._first_position(ours), found)
        )
        # Equal values keep the layout in memory that augur gave them.
        return ours if found.num_differing == 0 else torch.empty_like(ours).copy_(reference)

    def _first_position(self, ours: Tensor) -> int:
        """lm_head sees the last token alone, the cache all; the others the tokens fed."""
        end = self._pass.past_length + len(self._pass.token_ids)
        return end - ours.shape[-2]


def _op_of(module: nn.Module) -> str | None:
    if isinstance(module, Linear):
        return "linear"
    return "rms_norm" if isinstance(module, RMSNorm) else None


def _with_op(
    points: tuple[Point, ...], op: str | None, values: tuple[Tensor, ...]
) -> list[tuple[Point, str | None, Tensor]]:
    return [(point, op, value) for point, value in zip(points, values, strict=True)]
