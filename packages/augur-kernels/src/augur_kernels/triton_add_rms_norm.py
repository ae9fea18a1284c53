"""The residual and the norm behind it in one pass: `s = x + r`, `weight * s / sqrt(mean(s^2) +
eps)`.

Tiles and rounding as in `triton_rms_norm`; the sum is rounded to the dtype first, as where torch
adds. It saves reading the sum again: 5 reads and writes of the hidden states become 4.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.triton_arithmetic import in_float32, narrowed, rounded
from augur_kernels.triton_inputs import as_rows, check_inputs, check_shape, device_of
from augur_kernels.triton_rms_norm import norm_tile, normalised


def add_rms_norm(
    hidden_states: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """`rms_norm(hidden_states + residual, weight, eps)`, and the sum.

    Args:
        hidden_states: `[..., width]`.
        residual: as `hidden_states`.
        weight: `[width]`.
        eps: keeps the root away from zero.

    Returns:
        normed and summed, each `[..., width]`.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    op = "add_rms_norm"
    check_inputs(op, hidden_states=hidden_states, residual=residual, weight=weight)
    check_shape(op, "residual", residual, tuple(hidden_states.shape))
    check_shape(op, "weight", weight, (hidden_states.shape[-1],))
    normed, summed = (
        torch.empty(hidden_states.shape, dtype=weight.dtype, device=weight.device) for _ in range(2)
    )
    if normed.numel() == 0:
        return normed, summed
    rows, added = as_rows(hidden_states), as_rows(residual)
    tile_rows, columns, warps = norm_tile(op, rows.shape[1])
    with device_of(rows):
        _add_rms_norm[(triton.cdiv(len(rows), tile_rows),)](
            *(rows, added, weight, normed, summed, *rows.shape),
            *(*rows.stride(), *added.stride(), weight.stride(0), eps),
            ROWS=tile_rows,
            COLUMNS=columns,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return normed, summed


@triton.jit
def _add_rms_norm(
    x, residual, weight, normed, summed, rows, width,
    x_row, x_column, residual_row, residual_column, weight_step, eps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = x.dtype.element_ty
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < width)
    values = tl.load(x + row * x_row + column * x_column, mask=inside, other=0.0)
    added = tl.load(
        residual + row * residual_row + column * residual_column, mask=inside, other=0.0
    )
    scale = tl.load(weight + column * weight_step, mask=column < width, other=0.0)
    total = rounded(in_float32(values) + in_float32(added), dtype)
    result = normalised(total, in_float32(scale), width, eps, dtype)
    tl.store(summed + row * width + column, narrowed(total, dtype), mask=inside)
    tl.store(normed + row * width + column, narrowed(result, dtype), mask=inside)
