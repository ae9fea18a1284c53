"""Values that no trained weight has: NaN and the infinities."""

import math
from dataclasses import dataclass

import torch

# What is looked at in one go: the temporaries stay at a few MB however large the tensor is.
_CHUNK_ELEMENTS = 2**20


@dataclass(frozen=True)
class NonFinite:
    """What is not finite in a tensor.

    Attributes:
        count: how many values.
        first_index: the place of the first of them, in row-major order.
        first_value: that value.
    """

    count: int
    first_index: tuple[int, ...]
    first_value: float


def find_non_finite(tensor: torch.Tensor) -> NonFinite | None:
    """Look through a tensor of any shape and dtype; ``None`` where every value is finite."""
    if not tensor.is_floating_point():
        return None
    flat = tensor.reshape(-1)
    count, first = 0, -1
    for start in range(0, flat.numel(), _CHUNK_ELEMENTS):
        chunk = flat[start : start + _CHUNK_ELEMENTS]
        if chunk.dtype.itemsize == 1:  # torch.isfinite does not take the eight-bit floats
            chunk = chunk.float()
        # What is not finite shows in the extremes, NaN included, and they are found twenty times
        # faster than what they come from.
        if all(math.isfinite(extreme) for extreme in torch.aminmax(chunk)):
            continue
        strange = ~torch.isfinite(chunk)
        found = int(strange.sum())
        if found and not count:
            first = start + int(strange.to(torch.uint8).argmax())
        count += found
    if not count:
        return None
    return NonFinite(count, _unravelled(first, tensor.shape), float(flat[first].float()))


def _unravelled(position: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        position, place = divmod(position, size)
        index.append(place)
    return tuple(reversed(index))
