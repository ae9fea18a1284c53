"""The gate of the MLP: `silu(gate) * up`, `silu(g) = g / (1 + exp(-g))`.

Tiles `[ROWS, COLUMNS]` of 2,048 values. Rounding order of `augur_model.ops.swiglu`: silu to the
dtype, then the product.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.triton_arithmetic import in_float32, narrowed, rounded
from augur_kernels.triton_inputs import as_rows, check_inputs, check_shape, device_of

TILE = 2048


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """As `augur_model.ops.swiglu`: `[..., intermediate]` twice -> `[..., intermediate]`.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    check_inputs("swiglu", gate=gate, up=up)
    check_shape("swiglu", "up", up, tuple(gate.shape))
    gated = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if gated.numel() == 0:
        return gated
    gates, ups = as_rows(gate), as_rows(up)
    rows, width = gates.shape
    columns = min(TILE, triton.next_power_of_2(width))
    tile_rows = TILE // columns
    with device_of(gate):
        _swiglu[(triton.cdiv(rows, tile_rows), triton.cdiv(width, columns))](
            *(gates, ups, gated, rows, width, *gates.stride(), *ups.stride()),
            ROWS=tile_rows,
            COLUMNS=columns,
            enable_fp_fusion=False,
        )
    return gated


@triton.jit
def _swiglu(
    gate, up, gated, rows, width, gate_row, gate_column, up_row, up_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = gate.dtype.element_ty
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < width)
    gates = tl.load(gate + row * gate_row + column * gate_column, mask=inside, other=0.0)
    ups = tl.load(up + row * up_row + column * up_column, mask=inside, other=0.0)
    gates, ups = in_float32(gates), in_float32(ups)
    silu = rounded(gates / (1.0 + tl.exp(-gates)), dtype)
    tl.store(gated + row * width + column, narrowed(silu * ups, dtype), mask=inside)
