"""Poisoned memory around inputs and outputs, and a watch over what a kernel asks of torch."""

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

GUARD = 256
"""Elements before and after: more than a block of a kernel that runs past an end by one tile's
row; a multiple of 16 bytes in every dtype, so that alignment is what it would be without."""

# NaN with bits of their own, so that memory that was never written is told from a NaN computed.
_POISON = {
    torch.float32: (torch.int32, 0x7FC0DEAD),
    torch.float64: (torch.int64, 0x7FF8DEADDEADDEAD),
    torch.bfloat16: (torch.int16, 0x7FDE),
    torch.float16: (torch.int16, 0x7EDE),
    torch.int64: (torch.int64, -0x5EADBEEF5EADBEEF),
    torch.int32: (torch.int32, -0x5EADBEEF),
    torch.int8: (torch.int8, -0x5B),
    torch.uint8: (torch.uint8, 0xA5),
}


def poison(buffer: Tensor) -> None:
    """Fill with what no kernel computes; bool, which has nothing to spare, with false."""
    integer, bits = _POISON.get(buffer.dtype, (buffer.dtype, 0))
    buffer.view(integer).fill_(bits)


def never_written(values: Tensor) -> Tensor:
    """Which values are still the poison; bool, same shape."""
    if values.dtype not in _POISON:
        return torch.zeros_like(values, dtype=torch.bool)
    integer, bits = _POISON[values.dtype]
    return values.contiguous().view(integer) == bits


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def _in_rows(order: tuple[int, ...], padded: Callable[[list[int]], list[int]]) -> Any:
    """A layout: dimensions in the order they lie in memory, and how far apart rows lie."""

    def strides(shape: torch.Size) -> tuple[int, ...]:
        dims = [dim % len(shape) for dim in order]
        dims = [dim for dim in range(len(shape)) if dim not in dims] + dims
        sizes = padded([shape[dim] for dim in dims])
        steps = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
        return tuple(steps[dims.index(dim)] for dim in range(len(shape)))

    return strides


def _packed(sizes: list[int]) -> list[int]:
    return sizes


LAYOUTS: Mapping[str, Callable[[torch.Size], tuple[int, ...]]] = MappingProxyType(
    {
        "contiguous": _in_rows((-1,), _packed),
        "offset": _in_rows((-1,), _packed),  # starts one element past an aligned address
        "strided": _in_rows((-1,), lambda sizes: [*sizes[:-1], sizes[-1] + 8]),
        "heads inside": _in_rows((-2, -3, -1), _packed),  # [batch, length, heads, head_dim]
        "cache": _in_rows((-2, -1), lambda sizes: [*sizes[:-2], sizes[-2] + 7, sizes[-1]]),
        "transposed": _in_rows((-1, -2), _packed),
    }
)
"""Shape -> strides, in elements. Tensors of one dimension, and bool masks, are always packed."""


class Placed:
    """A tensor in poisoned memory, in the layout that a workload asks for.

    Attributes:
        tensor: what the kernel is given.
    """

    def __init__(self, name: str, values: Tensor, layout: str, device: torch.device) -> None:
        self._name = name
        plain = values.dim() < 2 or values.dtype not in _POISON
        strides = LAYOUTS["contiguous" if plain else layout](values.shape)
        extent = 1 + sum(s * (n - 1) for s, n in zip(strides, values.shape, strict=True))
        offset = GUARD + (1 if layout == "offset" and not plain else 0)
        self._buffer = torch.empty(extent + offset + GUARD, dtype=values.dtype, device=device)
        poison(self._buffer)
        self.tensor = self._buffer.as_strided(values.shape, strides, offset)
        self.fill(values)

    def fill(self, values: Tensor) -> None:
        """Put new values in the same memory."""
        self.tensor.copy_(values)
        self._before = self._buffer.clone()

    def complaint(self) -> str | None:
        """What the kernel did to it, in words."""
        if _same_memory(self._buffer, self._before):
            return None
        was = self._before.as_strided(
            self.tensor.shape, self.tensor.stride(), self.tensor.storage_offset()
        )
        if not _same_memory(self.tensor.contiguous(), was.contiguous()):
            return f"its input {self._name} was changed"
        return f"memory around its input {self._name} was written to"

    def holds(self, other: Tensor) -> bool:
        """Whether a tensor lies in this memory."""
        return other.untyped_storage().data_ptr() == self._buffer.untyped_storage().data_ptr()


_EMPTY = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
_FILLED = {"zeros", "zeros_like", "new_zeros", "full", "full_like", "new_full", "ones", "ones_like"}


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What a kernel asks of torch while it runs: operators by name, and memory, given poisoned.

    Attributes:
        operators: names of the operators called.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: set[str] = set()
        self._buffers: list[Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Keeping torch.compile out of the watch would import all of it, seconds for nothing.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Compute as usual; hand out new memory between guard bands."""
        name = func.overloadpacket.__name__
        self.operators.add(name)
        made = func(*args, **(kwargs or {}))
        guarded = (
            name in _EMPTY | _FILLED and not made.is_meta and made.dtype in _POISON and made.numel()
        )
        if not guarded:
            return made
        extent = 1 + sum(s * (n - 1) for s, n in zip(made.stride(), made.shape, strict=True))
        buffer = torch.empty(extent + 2 * GUARD, dtype=made.dtype, device=made.device)
        poison(buffer)
        self._buffers.append(buffer)
        inside = buffer.as_strided(made.shape, made.stride(), GUARD)
        return inside.copy_(made) if name in _FILLED else inside

    def complaint(self) -> str | None:
        """Whether a guard band was written to, in words."""
        for buffer in self._buffers:
            for name, band in (("before", buffer[:GUARD]), ("past", buffer[-GUARD:])):
                written = (~never_written(band)).nonzero().flatten().tolist()
                if written:
                    near = GUARD - written[-1] if name == "before" else written[0] + 1
                    return (
                        f"it wrote {name} the end of its output's memory"
                        if name == "past"
                        else "it wrote before its output's memory"
                    ) + f", {len(written)} values, the nearest {near} away"
        return None
