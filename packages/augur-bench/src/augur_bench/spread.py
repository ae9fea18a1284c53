"""A figure that was measured more than once."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Spread:
    """The middle of some readings and how far they lie apart.

    Attributes:
        median: the middle one; of an even number, the mean of the two.
        low: the smallest.
        high: the largest.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Of one reading or more."""
        readings = list(values)
        return cls(statistics.median(readings), min(readings), max(readings))

    @classmethod
    def of_known(cls, values: Iterable[float | None]) -> Self | None:
        """None where any of them is, as with a single token there is no decode rate."""
        known = list(values)
        return None if None in known else cls.of(value for value in known if value is not None)

    @classmethod
    def across(cls, rounds: Iterable["Spread"]) -> Self:
        """Of rounds with their own readings: the middle of the medians, and the whole range."""
        ends = [(one.median, one.low, one.high) for one in rounds]
        medians, lows, highs = zip(*ends, strict=True)
        return cls(statistics.median(medians), min(lows), max(highs))

    def over(self, other: "Spread") -> "Spread":
        """The quotient of two figures that were not measured side by side: the widest it can be."""
        return Spread(self.median / other.median, self.low / other.high, self.high / other.low)


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The value that `percent` of them do not exceed (nearest rank); None of no values."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)] if ordered else None
