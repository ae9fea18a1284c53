"""What a test asks of two tensors: equality, a tolerance, or the noise that a dtype explains."""

from typing import NamedTuple

import torch
from torch import Tensor

from augur_proof.difference import difference
from augur_proof.errors import ComparisonError
from augur_proof.tolerance import EXACT, Tolerance


class Outputs(NamedTuple):
    """The same computation by both sides, as the checks take it: `check_same_bits(*outputs)`."""

    found: Tensor
    expected: Tensor


def check_same_bits(found: Tensor, expected: Tensor) -> None:
    """Raise `ComparisonError` unless dtype, shape and every value are the same."""
    check_close(found, expected, EXACT)


def check_close(found: Tensor, expected: Tensor, tolerance: Tolerance) -> None:
    """Raise `ComparisonError` unless every value lies within `tolerance` of the expected one.

    Raises:
        ComparisonError: one does not, or dtype or shape are others.
        ValueError: from what was expected nothing can be told.
    """
    _check_comparable(found, expected)
    came_to = difference(found, expected, tolerance)
    if not came_to.held:
        raise ComparisonError(f"{came_to}; allowed: {tolerance}")


def check_within_budget(found: Tensor, plain: Tensor, oracle: Tensor) -> None:
    """Raise `ComparisonError` if `found` errs more than its dtype explains.

    Its largest error may be twice that of the plain path, which has to round as well, plus one
    rounding of the largest value.

    Args:
        found: any path, in half precision.
        plain: the plain path, in the same dtype.
        oracle: the plain path in float32.
    """
    _check_comparable(found, plain)
    error, plain_error = ((it.float() - oracle).abs().max() for it in (found, plain))
    allowed = 2 * plain_error + torch.finfo(plain.dtype).eps * oracle.abs().max()
    if not error <= allowed:
        raise ComparisonError(
            f"the largest error against float32 is {float(error)}, allowed are {float(allowed)}: "
            f"twice the plain path's, {float(plain_error)}, and one rounding"
        )


def _check_comparable(found: Tensor, expected: Tensor) -> None:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        raise ComparisonError(
            f"found {found.dtype} {list(found.shape)}, "
            f"expected {expected.dtype} {list(expected.shape)}"
        )
    # Nothing can be told from infinities and NaN, or from an output that is zero throughout.
    if not torch.isfinite(expected).all() or not expected.any():
        raise ValueError("the expected values are not finite, or all zero: a faulty test")
