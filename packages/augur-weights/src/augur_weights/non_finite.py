"""Values that no trained weight has: NaN and the infinities."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class NonFinite:
    """How many values of a tensor are not finite, and place and value of the first, by rows."""

    count: int
    first_index: tuple[int, ...]
    first_value: float


def all_finite(values: torch.Tensor) -> bool:
    """Whether every value of a tensor of any dtype, ``[n]`` with at least one, is finite."""
    if not values.is_floating_point():
        return True
    if values.dtype.itemsize == 1:
        values = values.float()  # torch takes no extremes of the eight-bit floats
    # What is not finite shows in the extremes, NaN included, and they are found twenty times faster
    # than what they come from.
    return all(math.isfinite(extreme) for extreme in torch.aminmax(values))


def find_non_finite(pieces: Iterable[torch.Tensor], shape: tuple[int, ...]) -> NonFinite | None:
    """Look through a tensor of any dtype; ``None`` where every value is finite.

    ``pieces`` are its values in row-major order, each ``[n]`` with at least one.
    """
    count, done, first, value = 0, 0, 0, 0.0
    for piece in pieces:
        if not all_finite(piece):
            strange = ~torch.isfinite(piece.double())
            if not count:
                place = int(strange.to(torch.uint8).argmax())
                first, value = done + place, float(piece[place])
            count += int(strange.sum())
        done += len(piece)
    return NonFinite(count, unravelled(first, shape), value) if count else None


def unravelled(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a tensor's value that is at ``position`` in row-major order."""
    index: list[int] = []
    for size in reversed(shape):
        position, place = divmod(position, size)
        index.append(place)
    return tuple(reversed(index))
