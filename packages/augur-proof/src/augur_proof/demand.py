"""What a comparison demands, and why: equality to the bit wherever that is promised."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from augur_proof.made_with import MadeWith
from augur_proof.tolerance import DTYPES, EXACT, ONE_OP, WHOLE_MODEL, Tolerance


@dataclass(frozen=True)
class Demand:
    """The rule that decides whether a comparison holds.

    Attributes:
        tolerance: how far a value may be from the reference's.
        near_ties_may_part: whether the tokens may part where the two candidates' logits are
            closer than the tolerance allows them to move. Never in float32.
        reasons: why not to the bit; empty where to the bit.
        budget: whether an op, or logits in half precision, are judged by their error beside the
            reference's own instead: two right ones there differ by as much as a wrong one does.
    """

    tolerance: Tolerance
    near_ties_may_part: bool = False
    reasons: tuple[str, ...] = ()
    budget: bool = False


def whole_model_demand(
    reference: MadeWith, candidate: MadeWith, tolerance: float | None = None
) -> Demand:
    """The demand on a whole model's logits and tokens.

    Args:
        reference: transformers' setting.
        candidate: augur's.
        tolerance: the user's own, absolute.
    """
    chosen, reasons = _chosen(WHOLE_MODEL, reference, candidate, tolerance)
    may_part = _coarser(reference, candidate) != torch.float32 and not chosen.exact
    # A reference of finer numbers has next to no error of its own to be a measure.
    budget = may_part and tolerance is None and candidate.dtype == reference.dtype
    return Demand(chosen, may_part, reasons, budget)


def one_op_demand(
    reference: MadeWith, candidate: MadeWith, tolerance: float | None = None
) -> Demand:
    """The demand on one module's or one op's output for equal inputs; arguments as above."""
    chosen, reasons = _chosen(ONE_OP, reference, candidate, tolerance)
    return Demand(chosen, reasons=reasons, budget=tolerance is None and not chosen.exact)


def _chosen(
    table: Mapping[torch.dtype, Tolerance],
    reference: MadeWith,
    candidate: MadeWith,
    tolerance: float | None,
) -> tuple[Tolerance, tuple[str, ...]]:
    """The user's own tolerance, else equality, else the table's where there is a reason."""
    if tolerance is not None:
        return Tolerance(tolerance), ("the tolerance asked for",)
    compared = (candidate.attention, reference.attention), (candidate.dtype, reference.dtype)
    reasons = [f"{ours} against {theirs}" for ours, theirs in compared if ours != theirs]
    devices = candidate.device_type, reference.device_type
    if devices != ("cpu", "cpu"):  # elsewhere equal bits are not promised, even by the same ops
        reasons.append("{} against {}".format(*devices))
    return (table[_coarser(reference, candidate)] if reasons else EXACT), tuple(reasons)


def _coarser(*sides: MadeWith) -> torch.dtype:
    """The dtype with the fewer digits."""
    return max((DTYPES[one.dtype] for one in sides), key=lambda dtype: torch.finfo(dtype).eps)
