"""What products with few-bit weights ask of their codes and scales."""

import torch
from torch import Tensor

from augur_kernels.errors import KernelInputError
from augur_kernels.quantised_format import GROUP
from augur_kernels.triton_inputs import check_shape


def check_codes(op: str, x: Tensor, codes: Tensor, dtype: torch.dtype, columns: int) -> None:
    """Raise `KernelInputError` unless codes `[out, columns]` belong to x."""
    if x.shape[-1] % GROUP:
        raise KernelInputError(
            f"{op}: x has {x.shape[-1]} columns, expected a multiple of {GROUP}, as many as share "
            "a scale"
        )
    if codes.dtype != dtype or codes.device != x.device:
        raise KernelInputError(
            f"{op}: codes are {codes.dtype} on {codes.device}, expected {dtype} on {x.device}"
        )
    check_shape(op, "codes", codes, (codes.shape[0], columns))


def scales_by_group(op: str, scales: Tensor, codes: Tensor, width: int) -> Tensor:
    """Scales as `[out, in / 32]`, a view: one of a whole row counts for each of its groups."""
    if scales.dtype != torch.float32 or scales.device != codes.device:
        raise KernelInputError(
            f"{op}: scales are {scales.dtype} on {scales.device}, expected torch.float32 on "
            f"{codes.device}"
        )
    if scales.dim() == 1:
        check_shape(op, "scales", scales, (len(codes),))
        return scales[:, None].expand(-1, width // GROUP)
    check_shape(op, "scales", scales, (len(codes), width // GROUP))
    return scales
