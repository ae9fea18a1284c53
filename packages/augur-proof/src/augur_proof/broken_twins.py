"""Deliberately broken implementations: what the comparisons exist to catch.

Each has the arguments of the op whose place it takes.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from augur_model import EAGER, Ops
from augur_model.ops import apply_rope, causal_mask, eager_attention, rms_norm, swiglu
from augur_proof.checks import check_close
from augur_proof.errors import ComparisonError
from augur_proof.tolerance import EXACT, Tolerance


def _epsilon_of_1e_5(hidden_states: Tensor, weight: Tensor, _: float) -> Tensor:
    return rms_norm(hidden_states, weight, 1e-5)


def _weight_before_rounding(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    in_float32 = hidden_states.float()
    scale = torch.rsqrt(in_float32.pow(2).mean(-1, keepdim=True) + eps)
    return (weight.float() * (in_float32 * scale)).to(hidden_states.dtype)


def _interleaved_rotation(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = heads.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = heads[..., ::2], heads[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def _backward_rotation(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return apply_rope(heads, cos, -sin)


def _tiled_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat(1, groups, 1, 1), value.repeat(1, groups, 1, 1)
    return eager_attention(query, key, value, mask, scale)


def _sees_one_token_ahead(
    query: Tensor, key: Tensor, value: Tensor, _: Tensor | None, scale: float
) -> Tensor:
    return eager_attention(query, key, value, _mask_up_to(1, query, key), scale)


def _misses_its_own_token(
    query: Tensor, key: Tensor, value: Tensor, _: Tensor | None, scale: float
) -> Tensor:
    return eager_attention(query, key, value, _mask_up_to(-1, query, key), scale)


def _mask_up_to(offset: int, query: Tensor, key: Tensor) -> Tensor:
    """Causal with an offset of 0; each query sees one token more or fewer with 1 or -1."""
    query_length, key_length = query.shape[2], key.shape[2]
    everything = torch.ones(query_length, key_length, dtype=torch.bool)
    return everything.tril(key_length - query_length + offset)


def _scores_of_twice_the_scale(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    return eager_attention(query, key, value, mask, 2 * scale)


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


def _gate_and_up_swapped(gate: Tensor, up: Tensor) -> Tensor:
    return swiglu(up, gate)


def _gelu_gate(gate: Tensor, up: Tensor) -> Tensor:
    return functional.gelu(gate) * up


def _biases_forgotten(hidden_states: Tensor, weight: Tensor, _: Tensor | None) -> Tensor:
    return functional.linear(hidden_states, weight)


NORM_TWINS = {"epsilon 1e-5": replace(EAGER, rms_norm=_epsilon_of_1e_5)}

ROTATION_TWINS = {
    "rotation interleaved": replace(EAGER, apply_rope=_interleaved_rotation),
    "rotation backwards": replace(EAGER, apply_rope=_backward_rotation),
}

ATTENTION_TWINS = {
    "heads tiled": replace(EAGER, attention=_tiled_heads),
    "own token not seen": replace(EAGER, attention=_misses_its_own_token),
    "scale doubled": replace(EAGER, attention=_scores_of_twice_the_scale),
    "biases forgotten": replace(EAGER, linear=_biases_forgotten),
}

PREFILL_TWINS = {"next token seen": replace(EAGER, attention=_sees_one_token_ahead)}
"""Invisible in a decode step, where there is no next token."""

MLP_TWINS = {
    "gate and up swapped": replace(EAGER, swiglu=_gate_and_up_swapped),
    "gelu for silu": replace(EAGER, swiglu=_gelu_gate),
}

LOW_BIT_TWINS = {
    "norm weight before rounding": replace(EAGER, rms_norm=_weight_before_rounding),
    "softmax in the input dtype": replace(EAGER, attention=_softmax_in_the_input_dtype),
}
"""Differ from the reference in the last bits of half precision, and in no more."""

DECODE_TWINS: dict[str, Ops] = {**NORM_TWINS, **ROTATION_TWINS, **ATTENTION_TWINS, **MLP_TWINS}


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
