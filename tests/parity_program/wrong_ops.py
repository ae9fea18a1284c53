"""Tables of ops as a kernel writer would bring them: one right, the others wrong in a known way."""

from dataclasses import replace

import torch
from torch import Tensor

from augur_model import EAGER
from augur_model.ops import apply_rope, causal_mask, eager_attention, rms_norm, swiglu


def _attention_in_float64(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    exact = eager_attention(query.double(), key.double(), value.double(), mask, scale)
    return exact.to(query.dtype)


def _tiled_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    tiled = (1, groups, 1, 1)
    return eager_attention(query, key.repeat(tiled), value.repeat(tiled), mask, scale)


def _mask_off_by_one(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    if query.shape[2] > 1:
        late = causal_mask(query.shape[2], key.shape[2], query.device)
        mask = late.roll(-1, dims=0) | late  # each query also sees the token after it
    return eager_attention(query, key, value, mask, scale)


def _interleaved_rope(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = heads.shape[-1] // 2
    cos = cos[..., :half].repeat_interleave(2, dim=-1).unsqueeze(1)
    sin = sin[..., :half].repeat_interleave(2, dim=-1).unsqueeze(1)
    rotated = torch.stack((-heads[..., 1::2], heads[..., ::2]), dim=-1).flatten(-2)
    return heads * cos + rotated * sin


def _rope_wrong_for_four_heads(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    rotated = apply_rope(heads, cos, sin)
    return -rotated if heads.shape[1] == 4 else rotated


NOT_A_TABLE = eager_attention
NOT_CALLABLE = replace(EAGER, swiglu=None)
RIGHT = replace(EAGER, attention=_attention_in_float64)
WRONG_EPSILON = replace(EAGER, rms_norm=lambda x, weight, _eps: rms_norm(x, weight, 1e-2))
TILED_HEADS = replace(EAGER, attention=_tiled_heads)
MASK_OFF_BY_ONE = replace(EAGER, attention=_mask_off_by_one)
INTERLEAVED_ROPE = replace(EAGER, apply_rope=_interleaved_rope)
QUERY_ALONE_ROTATED_WRONG = replace(EAGER, apply_rope=_rope_wrong_for_four_heads)
GATE_AND_UP_SWAPPED = replace(EAGER, swiglu=lambda gate, up: swiglu(up, gate))
BIAS_DROPPED = replace(EAGER, linear=lambda x, weight, _bias: torch.nn.functional.linear(x, weight))


def _raise(_gate: Tensor, _up: Tensor) -> Tensor:
    raise ArithmeticError("the kernel on trial gave up")


RAISES = replace(EAGER, swiglu=_raise)
GIVES_NOTHING = replace(EAGER, rms_norm=lambda _x, _weight, _eps: None)
GIVES_ANOTHER_DTYPE = replace(EAGER, apply_rope=lambda *args: apply_rope(*args).double())
GIVES_ANOTHER_SHAPE = replace(EAGER, attention=lambda *args: eager_attention(*args)[:, :, :1])
TAKES_TOO_LITTLE = replace(EAGER, linear=lambda x: x)
