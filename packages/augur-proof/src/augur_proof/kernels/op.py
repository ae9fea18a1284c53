"""What the kit knows of an op: its formula in float64, the plain torch op, and what it is fed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Kernel = Callable[..., Any]
"""What is on trial: the arguments and the result of the op that it replaces."""

Due = tuple[torch.Size, torch.dtype]


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32"."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Workload:
    """One call that models make; the values are drawn anew each time.

    Attributes:
        op: the op's name.
        dtype: of the activations.
        axes: sizes, by name.
        layout: how the inputs lie in memory, a key of `guards.LAYOUTS`.
        values: what is drawn, a key of `values.VALUES` or one of the op's own kinds.
        scalars: arguments that are numbers, by name.
    """

    op: str
    dtype: torch.dtype
    axes: Mapping[str, int]
    layout: str = "contiguous"
    values: str = "normal"
    scalars: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        sizes = " ".join(f"{name} {size}" for name, size in self.axes.items())
        numbers = "".join(f", {name} {value:g}" for name, value in self.scalars.items())
        return f"{sizes}; {self.layout}, {self.values}{numbers}"


@dataclass(frozen=True)
class Expected:
    """One output as it should be.

    Attributes:
        name: of the output.
        axes: what its dimensions are, for a person.
        oracle: in float64; integer where equality is demanded of an integer.
        magnitude: float64, same shape: what one rounding to the dtype is relative to.
        summing: float64, same shape: what the arithmetic inside may lose in float32, in units of
            float32's epsilon. Derived for each op beside its formula.
        equal: the plain op's bits are demanded.
    """

    name: str
    axes: tuple[str, ...]
    oracle: Tensor
    magnitude: Tensor
    summing: Tensor
    equal: bool = False


@dataclass(frozen=True)
class Op:
    """An op that a kernel may replace.

    Attributes:
        name: as `augur_model.Ops` calls it, where it is one of those.
        arguments: in order.
        plain: the plain torch op, whose own error is the measure.
        draw: a workload and a generator on the CPU -> the arguments, contiguous, on the CPU.
        workloads: dtype -> what the op is tried on.
        expected: the arguments -> each output as it should be.
        examine: in its place where the output is drawn at random: the arguments, and the output
            -> what is wrong and where; None where nothing is.
        due: the arguments -> shape and dtype of each output; as the first argument if left out.
        flops: a workload -> multiplications and additions that it needs at least; 0 where they
            are too few to be a limit.
        own_operators: torch's operators that compute this op by themselves.
        semantics: names of the rounding orders in use -> the op rounded exactly so.
        mistakes: what a kernel may have done instead, in words -> that formula.
    """

    name: str
    arguments: tuple[str, ...]
    plain: Kernel
    draw: Callable[[Workload, torch.Generator], tuple[Any, ...]]
    workloads: Callable[[torch.dtype], tuple[Workload, ...]]
    expected: Callable[..., tuple[Expected, ...]] = lambda *_: ()
    examine: Callable[[tuple[Any, ...], Tensor], tuple[str, str] | None] | None = None
    due: Callable[..., tuple[Due, ...]] = lambda first, *_: ((first.shape, first.dtype),)
    flops: Callable[[Workload], float] = lambda _: 0.0
    own_operators: frozenset[str] = frozenset()
    semantics: Mapping[str, Kernel] = field(default_factory=dict)
    mistakes: Mapping[str, Kernel] = field(default_factory=dict)
