"""Product with int8 weights for few rows: `y = x W^T`, `W = codes * scale of the group of 32`.

A program has one row of x and OUT rows of W; it walks over tiles `[OUT, GROUPS, 32]` of codes. In
float32: the products of a group are summed, then scaled, then summed over groups; rounded once.
Each row of x reads W anew (from the cache of the GPU, where rows follow each other), and its result
does not depend on the other rows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.quantised_format import GROUP
from augur_kernels.triton_arithmetic import in_float32, narrowed
from augur_kernels.triton_inputs import as_rows, check_inputs, device_of
from augur_kernels.triton_quantised_inputs import check_codes, scales_by_group

OUT = 16
GROUPS = 8


def int8_linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """`x @ dequantise_int8(codes, scales).T`.

    Args:
        x: `[..., in]`.
        codes: `[out, in]`, int8.
        scales: `[out, in / 32]` or `[out]`, float32.

    Returns:
        `[..., out]`, dtype of `x`.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    check_inputs("int8_linear", x=x)
    width = x.shape[-1]
    check_codes("int8_linear", x, codes, torch.int8, width)
    by_group = scales_by_group("int8_linear", scales, codes, width)
    rows = as_rows(x)
    product = torch.empty((len(rows), len(codes)), dtype=x.dtype, device=x.device)
    if product.numel():
        with device_of(x):
            _int8_linear[(len(rows), triton.cdiv(len(codes), OUT))](
                *(rows, codes, by_group, product, len(codes), width // GROUP),
                *(*rows.stride(), *codes.stride(), *by_group.stride()),
                OUT=OUT,
                GROUPS=GROUPS,
                enable_fp_fusion=True,
            )
    return product.view(*x.shape[:-1], len(codes))


@triton.jit
def _int8_linear(
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
        column = group[:, None] * 32 + tl.arange(0, 32)[None, :]
        values = tl.load(
            x + row * x_row + column * x_step, mask=(group < groups)[:, None], other=0.0
        )
        inside = (out[:, None] < out_features) & (group[None, :] < groups)
        weights = tl.load(
            codes + out[:, None, None] * codes_row + column[None, :, :] * codes_step,
            mask=inside[:, :, None],
            other=0,
        )
        scale = tl.load(
            scales + out[:, None] * scales_row + group[None, :] * scales_step,
            mask=inside,
            other=0.0,
        )
        of_group = tl.sum(weights.to(tl.float32) * in_float32(values)[None, :, :], axis=2)
        total += tl.sum(of_group * scale, axis=1)
    result = narrowed(total, dtype)
    tl.store(product + row * out_features + out, result, mask=out < out_features)
