"""What a comparison demands, and why: equality to the bit wherever that is promised."""

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
    """

    tolerance: Tolerance
    near_ties_may_part: bool
    reasons: tuple[str, ...] = ()


def whole_model_demand(
    reference: MadeWith, candidate: MadeWith, tolerance: float | None = None
) -> Demand:
    """The demand on a whole model's logits and tokens.

    Args:
        reference: transformers' setting.
        candidate: augur's.
        tolerance: the user's own, absolute.
    """
    dtype = _coarser(reference, candidate)
    chosen, reasons = _chosen(WHOLE_MODEL[dtype], reference, candidate, tolerance)
    return Demand(chosen, dtype != torch.float32 and not chosen.exact, reasons)


def one_op_demand(
    reference: MadeWith, candidate: MadeWith, tolerance: float | None = None
) -> Demand:
    """The demand on one module's or one op's output for equal inputs; arguments as above."""
    dtype = _coarser(reference, candidate)
    chosen, reasons = _chosen(ONE_OP[dtype], reference, candidate, tolerance)
    return Demand(chosen, False, reasons)


def reasons_to_differ(reference: MadeWith, candidate: MadeWith) -> tuple[str, ...]:
    """What in the candidate's setting computes otherwise than the reference; empty for nothing."""
    reasons = []
    if candidate.attention != reference.attention:
        reasons.append(f"{candidate.attention} against {reference.attention}")
    if candidate.dtype != reference.dtype:
        reasons.append(f"{candidate.dtype} against {reference.dtype}")
    # Off the CPU equal bits are not promised, even by the same ops.
    if (candidate.device_type, reference.device_type) != ("cpu", "cpu"):
        reasons.append(f"{candidate.device_type} against {reference.device_type}")
    return tuple(reasons)


def _chosen(
    by_table: Tolerance, reference: MadeWith, candidate: MadeWith, tolerance: float | None
) -> tuple[Tolerance, tuple[str, ...]]:
    """The user's own tolerance, else equality, else the table's where there is a reason."""
    if tolerance is not None:
        return Tolerance(tolerance), ("the tolerance asked for",)
    reasons = reasons_to_differ(reference, candidate)
    return (by_table if reasons else EXACT), reasons


def _coarser(reference: MadeWith, candidate: MadeWith) -> torch.dtype:
    """The dtype with the fewer digits."""
    return max((DTYPES[one.dtype] for one in (reference, candidate)), key=_rounding)


def _rounding(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps
