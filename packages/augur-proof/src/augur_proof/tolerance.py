"""How far from the reference is still right, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from augur.devices import DTypeName


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

WHOLE_MODEL: Mapping[DTypeName, Tolerance] = MappingProxyType(
    {
        "float32": Tolerance(1e-4, 1e-4),
        "float16": Tolerance(5e-3, 5e-3),
        "bfloat16": Tolerance(1e-2, of_peak=0.03),
    }
)
"""For logits that came another way: sums in another order, through every layer."""

ONE_OP: Mapping[DTypeName, Tolerance] = MappingProxyType(
    {
        "float32": Tolerance(1e-5, 1.3e-6),
        "float16": Tolerance(1e-3, 1e-3),
        "bfloat16": Tolerance(1e-3, 1.6e-2),
    }
)
"""For one op on equal inputs: a rounding or two; the absolute part is for sums that cancel."""
