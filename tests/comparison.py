"""What equal means: to the bit where the arithmetic is the same, else within a tolerance."""

from dataclasses import dataclass

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class ComparisonError(AssertionError):
    """Two results that should agree do not."""


@dataclass(frozen=True)
class Tolerance:
    """How far a value may lie from the expected one.

    Attributes:
        atol: in units of the value.
        rtol: share of the expected value.
        peak_share: share of the largest expected value of all.
    """

    atol: float
    rtol: float = 0.0
    peak_share: float = 0.0


# One op computed another way: the order of a few float32 sums differs, and the result is rounded
# once to the dtype.
ONE_OP = {
    torch.float32: Tolerance(1e-5, 1.3e-6),
    torch.float16: Tolerance(1e-3, 1e-3),
    torch.bfloat16: Tolerance(1e-3, 1.6e-2),
}

# The whole model along another path (fused attention, a cache, chunks): the matrix library sees
# other shapes and sums in another order in every layer, and each layer builds on the one before.
# In bfloat16, with 8 bits of mantissa, that noise goes with the largest logits, so their size sets
# the measure.
WHOLE_MODEL = {
    torch.float32: Tolerance(1e-4, 1e-4),
    torch.float16: Tolerance(5e-3, 5e-3),
    torch.bfloat16: Tolerance(1e-2, peak_share=0.03),
}


def check_same_bits(found: Tensor, expected: Tensor) -> None:
    """Raise `ComparisonError` unless dtype, shape and every value are the same."""
    _check_comparable(found, expected)
    if not torch.equal(found, expected):
        raise ComparisonError(_largest_difference(found, expected))


def check_close(found: Tensor, expected: Tensor, tolerance: Tolerance) -> None:
    """Raise `ComparisonError` unless every value lies within `tolerance` of the expected one."""
    _check_comparable(found, expected)
    magnitude = expected.float().abs()
    allowed = tolerance.atol + tolerance.rtol * magnitude
    allowed += tolerance.peak_share * magnitude.max()
    if not ((found.float() - expected.float()).abs() <= allowed).all():
        raise ComparisonError(f"{_largest_difference(found, expected)}; allowed: {tolerance}")


def check_same_up_to_noise(found: Tensor, expected: Tensor, oracle: Tensor) -> None:
    """Raise `ComparisonError` where `found` prefers another token for more than noise.

    The noise is the largest error of `expected` itself against `oracle`, the same computed in
    float32. It may lift one token and lower the other, so a gap of twice the noise can close.

    Args:
        found: logits `[batch, length, vocab_size]`.
        expected: the same along the plain path, in the same dtype.
        oracle: as `expected`, in float32.
    """
    _check_comparable(found, expected)
    noise = (expected.float() - oracle).abs().max()
    best, second = oracle.topk(2, dim=-1).values.unbind(-1)
    differs = found.float().argmax(-1) != expected.float().argmax(-1)
    beyond = differs & (best - second > 2 * noise)
    if beyond.any():
        raise ComparisonError(
            f"{int(differs.sum())} tokens of {differs.numel()} differ, {int(beyond.sum())} of them "
            f"where the two best logits are further apart than twice the noise, {float(noise)}"
        )


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


def _largest_difference(found: Tensor, expected: Tensor) -> str:
    difference = (found.float() - expected.float()).abs()
    place = torch.unravel_index(difference.argmax(), difference.shape)
    index = tuple(int(axis) for axis in place)
    return (
        f"{int((found != expected).sum())} of {found.numel()} values differ, most at {index}: "
        f"found {float(found[index])}, expected {float(expected[index])}"
    )
