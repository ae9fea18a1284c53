"""Root mean square normalisation: `weight * x / sqrt(mean(x^2) + eps)`.

Tiles `[ROWS, COLUMNS]`: COLUMNS holds a whole row, the next power of two from its width, so that x
is read once; ROWS brings a tile of short rows, such as Qwen3's heads, to 2,048 values. Rounding
order of `augur_model.ops.rms_norm`: the normalised value to the dtype of x, then the product with
the weight.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.errors import KernelInputError
from augur_kernels.triton_arithmetic import in_float32, inlined, narrowed, rounded
from augur_kernels.triton_inputs import as_rows, check_inputs, check_shape, device_of

WIDEST = 65536
"""Columns that a tile of one row may have; Qwen's widest are 8,192."""


def rms_norm(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As `augur_model.ops.rms_norm`: `[..., width]` and `[width]` -> `[..., width]`.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    check_inputs("rms_norm", hidden_states=hidden_states, weight=weight)
    check_shape("rms_norm", "weight", weight, (hidden_states.shape[-1],))
    normed = torch.empty(hidden_states.shape, dtype=weight.dtype, device=weight.device)
    if normed.numel() == 0:
        return normed
    rows = as_rows(hidden_states)
    tile_rows, columns, warps = norm_tile("rms_norm", rows.shape[1])
    with device_of(rows):
        _rms_norm[(triton.cdiv(len(rows), tile_rows),)](
            *(rows, weight, normed, *rows.shape, *rows.stride(), weight.stride(0), eps),
            ROWS=tile_rows,
            COLUMNS=columns,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return normed


def norm_tile(op: str, width: int) -> tuple[int, int, int]:
    """ROWS and COLUMNS of a tile for rows of so many values, and how many warps share it."""
    if width > WIDEST:
        raise KernelInputError(f"{op}: rows have {width} values, expected at most {WIDEST}")
    columns = triton.next_power_of_2(width)
    return max(1, 2048 // columns), columns, min(16, max(4, columns // 512))


@triton.jit
def _rms_norm(
    x, weight, normed, rows, width, row_step, column_step, weight_step, eps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = x.dtype.element_ty
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < width)
    values = tl.load(x + row * row_step + column * column_step, mask=inside, other=0.0)
    scale = tl.load(weight + column * weight_step, mask=column < width, other=0.0)
    result = normalised(in_float32(values), in_float32(scale), width, eps, dtype)
    tl.store(normed + row * width + column, narrowed(result, dtype), mask=inside)


@inlined
def normalised(values, scale, width, eps, dtype: tl.constexpr):
    """Rows `[ROWS, COLUMNS]`, zero past their width, and the weight `[1, COLUMNS]`; float32."""
    mean_square = tl.sum(values * values, axis=1, keep_dims=True) / width
    return rounded(scale * rounded(values * tl.rsqrt(mean_square + eps), dtype), dtype)
