"""Rotary positions: `x * cos + rotate_half(x) * sin`, half-split.

Tiles `[POSITIONS, HALF]` of one head of one row of the batch: HALF holds half a head, so that both
halves of a pair are read once. Rounding order of `augur_model.ops.apply_rope`: each product to the
dtype, then their sum.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.errors import KernelInputError
from augur_kernels.triton_arithmetic import in_float32, narrowed, rounded
from augur_kernels.triton_inputs import check_inputs, check_shape, device_of

TILE = 2048
"""Values of a tile and half."""


def apply_rope(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As `augur_model.ops.apply_rope`: heads `[batch, num_heads, length, head_dim]`, any strides.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    check_inputs("apply_rope", heads=heads, cos=cos, sin=sin)
    batch, num_heads, length, head_dim = heads.shape
    if head_dim % 2:
        raise KernelInputError(
            f"apply_rope: heads have {head_dim} channels, expected an even number"
        )
    tables = 1 if len(cos) == 1 else batch
    check_shape("apply_rope", "cos", cos, (tables, length, head_dim))
    check_shape("apply_rope", "sin", sin, (tables, length, head_dim))
    rotated = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
    if rotated.numel() == 0:
        return rotated
    half = triton.next_power_of_2(head_dim // 2)
    positions = min(TILE // half, triton.next_power_of_2(length)) or 1
    table_step = length * head_dim if tables > 1 else 0
    with device_of(heads):
        _apply_rope[(batch * num_heads, triton.cdiv(length, positions))](
            *(heads, cos.contiguous(), sin.contiguous(), rotated),
            *(num_heads, length, head_dim // 2, *heads.stride(), table_step),
            POSITIONS=positions,
            HALF=half,
            enable_fp_fusion=False,
        )
    return rotated


@triton.jit
def _apply_rope(
    x, cos, sin, rotated, num_heads, length, half,
    batch_step, head_step, position_step, channel_step, table_step,
    POSITIONS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = x.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)  # of batch * num_heads
    batch, head = row // num_heads, row % num_heads
    position = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)[:, None]
    channel = tl.arange(0, HALF)[None, :]
    inside = (position < length) & (channel < half)

    x += batch * batch_step + head * head_step
    place = position * position_step + channel * channel_step
    first = in_float32(tl.load(x + place, mask=inside, other=0.0))
    second = in_float32(tl.load(x + place + half * channel_step, mask=inside, other=0.0))

    angle = batch * table_step + position * (2 * half) + channel
    cos_first = in_float32(tl.load(cos + angle, mask=inside, other=0.0))
    sin_first = in_float32(tl.load(sin + angle, mask=inside, other=0.0))
    cos_second = in_float32(tl.load(cos + angle + half, mask=inside, other=0.0))
    sin_second = in_float32(tl.load(sin + angle + half, mask=inside, other=0.0))

    turned_first = rounded(first * cos_first, dtype) - rounded(second * sin_first, dtype)
    turned_second = rounded(second * cos_second, dtype) + rounded(first * sin_second, dtype)
    target = rotated + row * length * (2 * half) + position * (2 * half) + channel
    tl.store(target, narrowed(turned_first, dtype), mask=inside)
    tl.store(target + half, narrowed(turned_second, dtype), mask=inside)
