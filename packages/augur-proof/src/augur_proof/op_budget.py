"""Each op of a table judged on what a model feeds it: its error beside the plain op's own.

A tolerance wide enough for two right kernels in half precision lets wrong ones pass, and through a
whole model their differences drown in its noise. An op's own error against float64 on equal inputs
tells them apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from augur_gen import StaticKVCache
from augur_model import EAGER, Ops
from augur_proof.candidate import Candidate
from augur_proof.kernels import OPS, Workload, judge_outputs
from augur_proof.kernels.verdict import looks_like


@dataclass(frozen=True)
class OpBudget:
    """What one call of an op came to.

    Attributes:
        op: as `augur_model.Ops` calls it.
        share: of its budget; above 1 is too much.
        rms_ratio: root mean square of its error over the plain op's.
        complaint: what is wrong and where, in words; None where it held.
    """

    op: str
    share: float
    rms_ratio: float
    complaint: str | None

    @property
    def held(self) -> bool:
        """Whether its error is within the budget."""
        return self.complaint is None


Tell = Callable[[OpBudget, Tensor], object]
"""Given each call's budget, and what the plain op makes of the same inputs."""


def judged_ops(ops: Ops, tell: Tell) -> Ops:
    """The same table, each op that is not the reference's own judged whenever it is called."""

    def judged(name: str) -> Any:
        compute, plain = getattr(ops, name), getattr(EAGER, name)
        if getattr(compute, "__wrapped__", compute) is plain:
            return compute

        def call(*inputs: Any) -> Tensor:
            found: Tensor = compute(*inputs)
            reference = plain(*inputs)
            # Where nothing is finite, as in a model that overflows, nothing can be told.
            if reference.isfinite().any():
                tell(_judge_call(name, inputs, found), reference)
            return found

        return call

    return Ops(**{field.name: judged(field.name) for field in fields(Ops)})


@torch.inference_mode()
def judge_ops(candidate: Candidate, token_ids: Sequence[int]) -> list[OpBudget]:
    """Every call of the ops on trial in a pass over some tokens and one decode step after them.

    Args:
        candidate: as before when done.
        token_ids: at least two; of the length that matters, since a kernel may be wrong beyond it.

    Returns:
        in order of execution; empty where every op is the reference's own.
    """
    model, found = candidate.model, list[OpBudget]()
    ops = model.ops
    model.ops = judged_ops(ops, lambda budget, _: found.append(budget))
    try:
        cache = StaticKVCache.for_model(model, len(token_ids))
        for piece in (token_ids[:-1], token_ids[-1:]):
            fed = torch.tensor([list(piece)], device=model.device)
            model(fed, cache=cache, logits_to_keep=1)
    finally:
        model.ops = ops
    return found


def worst_calls(calls: list[OpBudget]) -> list[OpBudget]:
    """For each op the call that used most of its budget."""
    worst: dict[str, OpBudget] = {}
    for one in calls:
        if one.op not in worst or one.share > worst[one.op].share:
            worst[one.op] = one
    return list(worst.values())


def _judge_call(name: str, inputs: tuple[Any, ...], found: Tensor) -> OpBudget:
    op = OPS[name]
    outcome = judge_outputs(op, Workload(name, found.dtype, {}), inputs, (found,))
    ratio = outcome.figures.judgement.rms_ratio if outcome.figures else 1.0
    complaint = None
    if not outcome.held:
        mistake = looks_like(op, inputs, found)
        likely = f"; it looks as if {mistake}" if mistake else ""
        complaint = f"{outcome.complaint}; {outcome.where}{likely}"
    return OpBudget(name, outcome.share, ratio, complaint)
