"""Deliberately broken implementations: what the comparisons exist to catch."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from augur_model import EAGER, Ops
from augur_model.ops import apply_rope, causal_mask, eager_attention, rms_norm, swiglu
from augur_proof.checks import check_close
from augur_proof.errors import ComparisonError
from augur_proof.tolerance import EXACT, Tolerance


def _weight_before_rounding(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    in_float32 = hidden_states.float()
    scale = torch.rsqrt(in_float32.pow(2).mean(-1, keepdim=True) + eps)
    return (weight.float() * (in_float32 * scale)).to(hidden_states.dtype)


def _interleaved_rotation(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = heads.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = heads[..., ::2], heads[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def _tiled_heads(query: Tensor, key: Tensor, value: Tensor, *how: Any) -> Tensor:
    tiles = (1, query.shape[1] // key.shape[1], 1, 1)
    return eager_attention(query, key.repeat(tiles), value.repeat(tiles), *how)


def _masked_up_to(offset: int) -> Ops:
    """Each query sees one token more than it should with 1, one fewer with -1."""

    def attention(query: Tensor, key: Tensor, value: Tensor, _: Any, scale: float) -> Tensor:
        query_length, key_length = query.shape[2], key.shape[2]
        everything = torch.ones(query_length, key_length, dtype=torch.bool, device=query.device)
        mask = everything.tril(key_length - query_length + offset)
        return eager_attention(query, key, value, mask, scale)

    return replace(EAGER, attention=attention)


def _softmax_in_the_input_dtype(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if mask is None:
        mask = causal_mask(query.shape[2], key.shape[2], query.device)
    scores = (query @ key.transpose(2, 3) * scale).masked_fill(~mask, -torch.inf)
    # exp and sum written out: torch's own softmax computes in float32 inside.
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ value


NORM_TWINS = {
    "epsilon 1e-5": replace(
        EAGER, rms_norm=lambda inputs, weight, _: rms_norm(inputs, weight, 1e-5)
    )
}

ROTATION_TWINS = {
    "rotation interleaved": replace(EAGER, apply_rope=_interleaved_rotation),
    "rotation backwards": replace(
        EAGER, apply_rope=lambda heads, cos, sin: apply_rope(heads, cos, -sin)
    ),
}

ATTENTION_TWINS = {
    "heads tiled": replace(EAGER, attention=_tiled_heads),
    "own token not seen": _masked_up_to(-1),
    "scale doubled": replace(
        EAGER,
        attention=lambda query, key, value, mask, scale: eager_attention(
            query, key, value, mask, 2 * scale
        ),
    ),
    "biases forgotten": replace(
        EAGER, linear=lambda inputs, weight, _: functional.linear(inputs, weight)
    ),
}

PREFILL_TWINS = {"next token seen": _masked_up_to(1)}
"""Invisible in a decode step, where there is no next token."""

MLP_TWINS = {
    "gate and up swapped": replace(EAGER, swiglu=lambda gate, up: swiglu(up, gate)),
    "gelu for silu": replace(EAGER, swiglu=lambda gate, up: functional.gelu(gate) * up),
}

LOW_BIT_TWINS = {
    "norm weight before rounding": replace(EAGER, rms_norm=_weight_before_rounding),
    "softmax in the input dtype": replace(EAGER, attention=_softmax_in_the_input_dtype),
}
"""Differ from the reference in the last bits of half precision, and in no more."""

DECODE_TWINS: dict[str, Ops] = {**NORM_TWINS, **ROTATION_TWINS, **ATTENTION_TWINS, **MLP_TWINS}
"""All that show in a prefill and in a decode step."""


def check_both_fail(found: Tensor, expected: Tensor, tolerance: Tolerance) -> None:
    """Neither equality nor the tolerance may let a broken implementation pass.

    Raises:
        ComparisonError: one of them does.
    """
    for allowed in (EXACT, tolerance):
        try:
            check_close(found, expected, allowed)
        except ComparisonError:
            continue
        raise ComparisonError(f"a broken implementation passes; allowed: {allowed}")
