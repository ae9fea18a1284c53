"""How wrong a kernel must be to be seen: errors of known size, put into exact results."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.op import Op
from augur_proof.kernels.trial import each_outcome


def _scaled(exact: Tensor, size: float) -> Tensor:
    return exact * (1 + size)


def _noisy(exact: Tensor, size: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)  # the same each time, as a kernel's errors are
    return exact * (1 + size * torch.randn(exact.shape, generator=generator, dtype=exact.dtype))


def _one_value(exact: Tensor, size: float) -> Tensor:
    wrong = exact.clone()
    wrong[(-1,) * exact.dim()] *= 1 + size
    return wrong


ERRORS: Mapping[str, Callable[[Tensor, float], Tensor]] = MappingProxyType(
    {"all too large by": _scaled, "noise of": _noisy, "the last value off by": _one_value}
)
"""Sizes are relative to each value."""


def seen(op: Op, dtype: torch.dtype, error: str, size: float) -> bool:
    """Whether a kernel with that error is rejected on some workload."""

    def kernel(*inputs: Any) -> Any:
        expected = op.expected(*inputs)
        first = ERRORS[error](expected[0].oracle, size).to(dtype)
        others = tuple(one.oracle.to(dtype) for one in expected[1:])
        return (first, *others) if others else first

    return any(not one.held for one in each_outcome(kernel, op, [dtype]))


def smallest_seen(op: Op, dtype: torch.dtype, error: str) -> float:
    """The smallest power of two that is seen, to within a factor of two."""
    low, high = -30, 0  # 2**low is below float32's epsilon
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(op, dtype, error, 2.0**middle) else (middle, high)
    return 2.0**high
