"""How wrong a kernel may be: its error beside the plain torch op's own, against float64.

Errors are counted in units, value by value: one epsilon of the dtype times the value's magnitude,
plus what float32 arithmetic inside may lose there. In half precision the second part is next to
nothing, and correct rounding alone errs by 0.2 units in the root mean square and 0.5 at most; in
float32 it admits sums in any order.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from augur_proof.kernels.op import Expected

EPS32 = torch.finfo(torch.float32).eps

RMS_MULTIPLE = 1.1
"""Of the plain op's root mean square. Right ones come to 0.7 (one rounding where it has two) to
1.0; each further rounding of the same size adds the square of one: 1.22 after two, 1.15 after
three."""
LARGEST_MULTIPLE = 2.0
"""Of the plain op's largest error, plus one rounding: extremes of two samples differ so much."""
FLOAT32_EXTREME = 10.0
"""Of float32's part, for the largest error: the extreme of a random walk is 5 of its root mean
square, and matrix libraries have lanes whose sums lose twice as much as others."""
BIAS_FLOOR = 0.03
"""Roundings by which results may be too large or too small on average: exponentials of fused
kernels are good to some 1e-5, 0.013 roundings of float16. In bfloat16 it is 2e-4 of the value."""
SIGMAS = 6.0
"""What chance is allowed, in standard errors: nothing seen in hundreds of millions of draws."""


@dataclass(frozen=True)
class Errors:
    """The error of one output.

    Attributes:
        rms: root mean square, in units.
        largest: the largest, in units; infinite where a value is not finite and should be.
        bias: mean of the error away from zero, in units: positive where results are too large.
        index: where the largest is.
    """

    rms: float
    largest: float
    bias: float
    index: tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """The most that each figure of a candidate may be, in units."""

    rms: float
    largest: float
    bias: float


@dataclass(frozen=True)
class Judgement:
    """One output of one call, judged.

    Attributes:
        candidate: its errors.
        plain: the plain torch op's errors, in the same dtype on the same inputs.
        limits: what the candidate was allowed.
        wrong: which values are beyond the limit for one value; bool, the output's shape.
        unit: what the errors are counted in, float64, the output's shape.
    """

    candidate: Errors
    plain: Errors
    limits: Limits
    wrong: Tensor
    unit: Tensor

    @property
    def shares(self) -> dict[str, float]:
        """Each figure as a share of its limit; above 1 is too much."""
        return {
            "rms": self.candidate.rms / self.limits.rms,
            "largest": self.candidate.largest / self.limits.largest,
            "bias": abs(self.candidate.bias) / self.limits.bias,
        }

    @property
    def worst(self) -> str:
        """The figure that uses the largest share of its limit."""
        return max(self.shares, key=self.shares.__getitem__)

    @property
    def share(self) -> float:
        """That share."""
        return self.shares[self.worst]

    @property
    def held(self) -> bool:
        """Whether every figure is within its limit."""
        return self.share <= 1

    @property
    def rms_ratio(self) -> float:
        """Root mean square error over the plain op's; 1 where both are exact."""
        if self.candidate.rms == self.plain.rms:
            return 1.0
        return self.candidate.rms / self.plain.rms if self.plain.rms else float("inf")


def unit_of(expected: Expected, dtype: torch.dtype) -> Tensor:
    """What one rounding is worth at each value; float64, the output's shape."""
    rounding, summing = _parts(expected, dtype)
    return rounding + summing


def judge(found: Tensor, plain: Tensor, expected: Expected) -> Judgement:
    """Judge one output.

    Args:
        found: the candidate's.
        plain: the plain op's, in the same dtype.
        expected: the oracle for the same inputs, and what a rounding is worth.
    """
    rounding, summing = _parts(expected, plain.dtype)
    unit = rounding + summing
    # Where the plain op overflows, nothing can be told.
    counted = plain.isfinite() & expected.oracle.isfinite()
    if not counted.any():
        raise ValueError("the plain op gives no finite value: a workload that tells nothing")
    candidate = _errors(found, expected.oracle, unit, counted)
    own = _errors(plain, expected.oracle, unit, counted)
    inner = summing / unit
    inner_rms = _rms(inner[counted])
    chance = SIGMAS / int(counted.sum()) ** 0.5
    # The spread of a mean square: for errors that are uniform 0.9 of it, for a normal one 1.4.
    rms = RMS_MULTIPLE * own.rms * (1 + 0.7 * chance) + inner_rms
    one_value = LARGEST_MULTIPLE * own.largest + 1 + FLOAT32_EXTREME * inner
    limits = Limits(
        rms=rms,
        largest=LARGEST_MULTIPLE * own.largest + 1 + FLOAT32_EXTREME * inner_rms,
        bias=abs(own.bias) + chance * max(own.rms, 0.3) + BIAS_FLOOR + 0.5 * inner_rms,
    )
    error = _in_units(found, expected.oracle, unit)
    wrong = counted & ~(error.abs() <= one_value)
    return Judgement(candidate, own, limits, wrong, unit)


def _parts(expected: Expected, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    smallest = torch.finfo(dtype).tiny
    rounding = torch.finfo(dtype).eps * expected.magnitude.clamp(min=smallest)
    if dtype != torch.float16:
        # Results below the smallest normal number may be flushed to zero, as GPUs do.
        flushed = expected.magnitude < 4 * smallest
        rounding = torch.where(flushed, 4 * smallest, rounding)
    return rounding, EPS32 * expected.summing


def _in_units(found: Tensor, oracle: Tensor, unit: Tensor) -> Tensor:
    return ((found.double() - oracle) / unit).nan_to_num(nan=torch.inf)


def _errors(found: Tensor, oracle: Tensor, unit: Tensor, counted: Tensor) -> Errors:
    error = torch.where(counted, _in_units(found, oracle, unit), 0.0)
    place = int(error.abs().argmax())
    index: tuple[int, ...] = ()
    left = place  # torch.unravel_index would import sympy, seconds for nothing
    for size in reversed(error.shape):
        left, along = divmod(left, size)
        index = (along, *index)
    within = error[counted]
    # A mean of infinities of both signs is none.
    bias = float((within * oracle[counted].sign()).mean().nan_to_num(nan=torch.inf))
    return Errors(_rms(within), float(error.abs().flatten()[place]), bias, index)


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0
