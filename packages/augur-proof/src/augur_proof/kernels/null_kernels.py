"""Kernels that compute nothing: a workload on which one of them passes proves nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.op import Kernel, Op


def _each(op: Op, make: Callable[[torch.Size, torch.dtype, torch.device], Tensor]) -> Kernel:
    def kernel(*inputs: Any) -> Any:
        device = inputs[0].device
        made = tuple(make(shape, dtype, device) for shape, dtype in op.due(*inputs))
        return made if len(made) > 1 else made[0]

    return kernel


def _filled(value: int) -> Callable[[Op], Kernel]:
    def of(op: Op) -> Kernel:
        return _each(
            op, lambda shape, dtype, device: torch.full(shape, value, dtype=dtype).to(device)
        )

    return of


def _copy_of_an_input(op: Op) -> Kernel:
    """The first input's values, in order, as many as are due."""

    def kernel(*inputs: Any) -> Any:
        flat = inputs[0].flatten()
        made = tuple(
            flat.repeat(-(-shape.numel() // flat.numel()))[: shape.numel()].view(shape).to(dtype)
            for shape, dtype in op.due(*inputs)
        )
        return made if len(made) > 1 else made[0]

    return kernel


def _previous_answer(op: Op) -> Kernel:
    """Right, one call late."""
    before: list[Any] = []

    def kernel(*inputs: Any) -> Any:
        before.append(op.plain(*inputs))
        return _copied(before[-2] if len(before) > 1 else before[-1])

    return kernel


def _copied(answer: Any) -> Any:
    if isinstance(answer, tuple):
        return tuple(part.clone() for part in answer)
    return answer.clone()


def _memory_as_it_was(op: Op) -> Kernel:
    return _each(op, lambda shape, dtype, device: torch.empty(shape, dtype=dtype, device=device))


NULL_KERNELS: Mapping[str, Callable[[Op], Kernel]] = MappingProxyType(
    {
        "zeros": _filled(0),
        "ones": _filled(1),
        "a constant": _filled(3),
        "a copy of an input": _copy_of_an_input,
        "the previous answer": _previous_answer,
        "memory as it was": _memory_as_it_was,
    }
)
"""Name -> an op -> a kernel of its signature."""
