"""How far from the reference is still right, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

DTypeName = Literal["float32", "bfloat16", "float16"]

DTYPES: Mapping[DTypeName, torch.dtype] = MappingProxyType(
    {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
)
"""What a proof can be carried out in, under the names that files and users give them."""


@dataclass(frozen=True)
class Tolerance:
    """`absolute + relative * |reference| + of_peak * max |reference|`, value by value.

    The peak is that of the last dimension: of one position's logits.
    """

    absolute: float = 0.0
    relative: float = 0.0
    of_peak: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether nothing but equality will do."""
        return self == EXACT

    def bound(self, reference: Tensor) -> Tensor:
        """The largest difference allowed for each value; shape and dtype of `reference`."""
        magnitude = reference.abs()
        peak = magnitude.amax(dim=-1, keepdim=True)
        return self.absolute + self.relative * magnitude + self.of_peak * peak

    def __str__(self) -> str:
        if self.exact:
            return "0 (equal to the bit)"
        parts = [f"{self.absolute:g}"]
        if self.relative:
            parts.append(f"{self.relative:g} of the value")
        if self.of_peak:
            parts.append(f"{self.of_peak:.0%} of the peak")
        return " + ".join(parts)


EXACT = Tolerance()

WHOLE_MODEL: Mapping[torch.dtype, Tolerance] = MappingProxyType(
    {
        torch.float32: Tolerance(1e-4, 1e-4),
        torch.float16: Tolerance(5e-3, 5e-3),
        torch.bfloat16: Tolerance(1e-2, of_peak=0.03),
    }
)
"""For logits that came another way (fused attention, a cache, chunks): sums in another order, in
every layer, and each layer builds on the one before. In bfloat16, with 8 bits of mantissa, that
noise goes with the largest logits, so their size sets the measure."""

ONE_OP: Mapping[torch.dtype, Tolerance] = MappingProxyType(
    {
        torch.float32: Tolerance(1e-5, 1.3e-6),
        torch.float16: Tolerance(1e-3, 1e-3),
        torch.bfloat16: Tolerance(1e-3, 1.6e-2),
    }
)
"""For one op or module on equal inputs: a rounding or two; the absolute part is for sums that
cancel."""
