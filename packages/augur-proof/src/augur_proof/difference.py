"""The largest difference between two tensors, where it is, and whether it is tolerated."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from augur_proof.tolerance import Tolerance
from augur_proof.ulp import ulp_distance


@dataclass(frozen=True)
class Difference:
    """What a comparison of two tensors of one shape came to.

    Attributes:
        largest: the largest absolute difference; infinite where one side alone is NaN.
        index: where that is.
        ours: the value there.
        reference: the reference's value there.
        ulps: representable numbers between the two; None where dtypes differ or one is NaN.
        num_differing: values that are not equal.
        num_values: values in all.
        held: whether every value is within the tolerance.
    """

    largest: float
    index: tuple[int, ...]
    ours: float
    reference: float
    ulps: int | None
    num_differing: int
    num_values: int
    held: bool

    def __str__(self) -> str:
        return (
            f"{self.num_differing:,} of {self.num_values:,} values differ, most at {self.index}: "
            f"found {self.ours:.9g}, expected {self.reference:.9g}"
        )


def difference(ours: Tensor, reference: Tensor, tolerance: Tolerance) -> Difference:
    """Compare value by value; NaN equals NaN.

    Args:
        ours: floating or integer, not empty.
        reference: same shape; its dtype may differ.
        tolerance: how far each value may be from the reference's.
    """
    # float64 holds every difference of the narrower dtypes, and not every device has it.
    ours, reference = ours.detach().cpu(), reference.detach().cpu()
    exact_ours, exact_reference = ours.double(), reference.double()
    equal = (exact_ours == exact_reference) | (exact_ours.isnan() & exact_reference.isnan())
    distance = (exact_ours - exact_reference).abs()
    distance = distance.nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(equal, 0.0)
    # An infinite reference makes its bound infinite too; that must not excuse a finite value.
    tolerated = equal | ((distance <= tolerance.bound(exact_reference)) & distance.isfinite())
    place = int(distance.argmax())
    return Difference(
        largest=float(distance.flatten()[place]),
        index=tuple(int(i) for i in torch.unravel_index(torch.tensor(place), distance.shape)),
        ours=float(exact_ours.flatten()[place]),
        reference=float(exact_reference.flatten()[place]),
        ulps=_ulps(ours.flatten()[place], reference.flatten()[place]),
        num_differing=int((~equal).sum()),
        num_values=equal.numel(),
        held=bool(tolerated.all()),
    )


def _ulps(ours: Tensor, reference: Tensor) -> int | None:
    comparable = ours.dtype == reference.dtype and ours.is_floating_point()
    if not comparable or ours.isnan() or reference.isnan():
        return None
    return int(ulp_distance(ours[None], reference[None]))
