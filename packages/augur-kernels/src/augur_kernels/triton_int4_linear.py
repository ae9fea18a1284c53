"""Product with int4 weights for few rows: `y = x W^T`, `W = (nibble - 8) * scale of the group of
32`.

As `triton_int8_linear`, over tiles `[OUT, GROUPS, 16]` of bytes, each of which holds two
neighbouring columns, the first in its low half.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.quantised_format import GROUP
from augur_kernels.triton_arithmetic import in_float32, narrowed
from augur_kernels.triton_inputs import as_rows, check_inputs, check_shape, device_of
from augur_kernels.triton_quantised_inputs import check_codes, scales_by_group

OUT = 16
GROUPS = 8


def int4_linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """`x @ dequantise_int4(codes, scales).T`.

    Args:
        x: `[..., in]`.
        codes: `[out, in / 2]`, uint8.
        scales: `[out, in / 32]`, float32.

    Returns:
        `[..., out]`, dtype of `x`.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    check_inputs("int4_linear", x=x)
    width = x.shape[-1]
    check_codes("int4_linear", x, codes, torch.uint8, width // 2)
    by_group = scales_by_group("int4_linear", scales, codes, width)
    check_shape("int4_linear", "scales", scales, (len(codes), width // GROUP))
    rows = as_rows(x)
    product = torch.empty((len(rows), len(codes)), dtype=x.dtype, device=x.device)
    if product.numel():
        with device_of(x):
            _int4_linear[(len(rows), triton.cdiv(len(codes), OUT))](
                *(rows, codes, by_group, product, len(codes), width // GROUP),
                *(*rows.stride(), *codes.stride(), *by_group.stride()),
                OUT=OUT,
                GROUPS=GROUPS,
                enable_fp_fusion=True,
            )
    return product.view(*x.shape[:-1], len(codes))


@triton.jit
def _int4_linear(
    x, codes, scales, product, out_features, groups,
    x_row, x_step, codes_row, codes_step, scales_row, scales_step,
    OUT: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = x.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    out = tl.program_id(1).to(tl.int64) * OUT + tl.arange(0, OUT)
    total = tl.zeros([OUT], tl.float32)
    for start in range(0, groups, GROUPS):
        group = start + tl.arange(0, GROUPS)
        byte = group[:, None] * 16 + tl.arange(0, 16)[None, :]
        there = (group < groups)[:, None]
        even = x + row * x_row + byte * (2 * x_step)
        evens = in_float32(tl.load(even, mask=there, other=0.0))
        odds = in_float32(tl.load(even + x_step, mask=there, other=0.0))
        inside = (out[:, None] < out_features) & (group[None, :] < groups)
        pairs = tl.load(
            codes + out[:, None, None] * codes_row + byte[None, :, :] * codes_step,
            mask=inside[:, :, None],
            other=0,
        ).to(tl.int32)
        scale = tl.load(
            scales + out[:, None] * scales_row + group[None, :] * scales_step,
            mask=inside,
            other=0.0,
        )
        low = ((pairs & 15) - 8).to(tl.float32)
        high = ((pairs >> 4) - 8).to(tl.float32)
        of_group = tl.sum(low * evens[None, :, :] + high * odds[None, :, :], axis=2)
        total += tl.sum(of_group * scale, axis=1)
    result = narrowed(total, dtype)
    tl.store(product + row * out_features + out, result, mask=out < out_features)
