"""What inputs are filled with: what activations look like, and what breaks kernels."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor


def normal(shape: tuple[int, ...], generator: torch.Generator, _: torch.dtype) -> Tensor:
    """Standard normal, float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _outliers(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Massive activations as Qwen has them, among them the last and the first channel."""
    values = normal(shape, generator, dtype)
    values[..., [0, shape[-1] // 3, -1]] *= 100
    return values


def _small(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Mean square about 1e-6, as large as a norm's epsilon."""
    return 1e-3 * normal(shape, generator, dtype)


def _tiny(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Around the smallest normal number, many of them denormal."""
    return torch.finfo(dtype).tiny * normal(shape, generator, dtype)


def _large(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Up to two thirds of float16's largest number; up to 1e15 else, whose squares still sum."""
    largest = min(torch.finfo(dtype).max / 1.5, 1e15)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return largest * (2 * uniform - 1)


def _zero_rows(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Every third row from the second on is zero; a lone row has a zero half."""
    values = normal(shape, generator, dtype)
    rows = values.view(-1, shape[-1])
    rows[1::3] = 0
    if len(rows) == 1:
        rows[:, : shape[-1] // 2] = 0
    return values


VALUES: Mapping[str, Callable[[tuple[int, ...], torch.Generator, torch.dtype], Tensor]] = (
    MappingProxyType(
        {
            "normal": normal,
            "outliers": _outliers,
            "small": _small,
            "denormal": _tiny,
            "large": _large,
            "zero rows": _zero_rows,
        }
    )
)
