"""What every kernel asks of its tensors before it starts, and how it sees them as rows."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from augur_kernels.errors import KernelInputError, KernelUnavailableError
from augur_kernels.triton_arithmetic import INTERPRETED

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check_inputs(op: str, **tensors: Tensor) -> None:
    """Refuse what a kernel would compute wrongly or crash on.

    Raises:
        KernelUnavailableError: the tensors are where Triton does not run.
        KernelInputError: they differ in dtype or device, or gradients are asked for.
    """
    (first_name, first), *others = tensors.items()
    if first.dtype not in DTYPES:
        raise KernelInputError(
            f"{op}: {first_name} is {first.dtype}, expected float32, bfloat16 or float16"
        )
    if first.device.type != "cuda" and not (INTERPRETED.value and first.device.type == "cpu"):
        raise KernelUnavailableError(
            f"{op}: {first_name} is on {first.device}, and Triton compiles for GPUs; move it to "
            "cuda, or set TRITON_INTERPRET=1 before Python starts to run it slowly on the cpu"
        )
    for name, tensor in others:
        if (tensor.dtype, tensor.device) != (first.dtype, first.device):
            raise KernelInputError(
                f"{op}: {name} is {tensor.dtype} on {tensor.device}, and {first_name} "
                f"{first.dtype} on {first.device}; expected the same"
            )
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
        raise KernelInputError(f"{op}: it has no gradient; call it under torch.inference_mode()")


def check_shape(op: str, name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    """Raise `KernelInputError` unless a tensor has the shape that the others ask for."""
    if tuple(tensor.shape) != expected:
        raise KernelInputError(
            f"{op}: {name} has the shape {list(tensor.shape)}, expected {list(expected)}"
        )


def as_rows(tensor: Tensor) -> Tensor:
    """`[..., width] -> [rows, width]`: a view where strides allow one, as they nearly always do."""
    return tensor.reshape(-1, tensor.shape[-1])


def with_channels_together(tensor: Tensor) -> Tensor:
    """The tensor, copied if neighbours of its last dimension lie apart in memory."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Kernels start on the current device: make it the tensor's."""
    return torch.cuda.device_of(tensor)
