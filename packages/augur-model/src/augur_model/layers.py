"""The parts of a decoder block. Parameter names equal the checkpoint's, so loading renames nothing.

Every layer is handed the table of ops to compute with; none keeps state of a sequence.
"""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from augur_model.cache import KVCache
from augur_model.config import QwenConfig
from augur_model.ops.rope import inverse_frequencies, rope_tables, yarn_inverse_frequencies
from augur_model.ops.table import Ops
from augur_model.ops.window import attention_within_window


def _parameter(*shape: int) -> nn.Parameter:
    """An uninitialised parameter: values come from a checkpoint, gradients are never asked for."""
    return nn.Parameter(torch.empty(*shape), requires_grad=False)


class Linear(nn.Module):
    """`x @ weight.T + bias`: weight `[out_features, in_features]`, bias `[out_features]`."""

    bias: nn.Parameter | None

    def __init__(self, in_features: int, out_features: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = _parameter(out_features, in_features)
        self.register_parameter("bias", _parameter(out_features) if bias else None)

    def forward(self, hidden_states: Tensor, ops: Ops) -> Tensor:
        """`[..., in_features] -> [..., out_features]`."""
        return ops.linear(hidden_states, self.weight, self.bias)


class RMSNorm(nn.Module):
    """`ops.rms_norm` with a learned weight `[width]`."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = _parameter(width)
        self.eps = eps

    def forward(self, hidden_states: Tensor, ops: Ops) -> Tensor:
        """`[..., width] -> [..., width]`."""
        return ops.rms_norm(hidden_states, self.weight, self.eps)


class RotaryEmbedding(nn.Module):
    """Gives the rotation tables of positions. Computed, not loaded: no checkpoint holds them."""

    inverse_frequencies: Tensor

    def __init__(self, config: QwenConfig) -> None:
        super().__init__()
        self.attention_factor = config.yarn.attention_factor if config.yarn else 1.0
        self.register_buffer("inverse_frequencies", _frequencies(config), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # `model.to(torch.bfloat16)` would round the frequencies; they follow the device alone.
        exact = self.inverse_frequencies
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.inverse_frequencies = exact.to(self.inverse_frequencies.device)
        return self

    def forward(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """`[batch, length]` positions -> cos and sin, each `[batch, length, head_dim]`."""
        return rope_tables(positions, self.inverse_frequencies, dtype, self.attention_factor)


def _frequencies(config: QwenConfig) -> Tensor:
    if config.yarn is None:
        return inverse_frequencies(config.head_dim, config.rope_theta)
    return yarn_inverse_frequencies(
        config.head_dim,
        config.rope_theta,
        factor=config.yarn.factor,
        original_length=config.yarn.original_max_position_embeddings,
        beta_fast=config.yarn.beta_fast,
        beta_slow=config.yarn.beta_slow,
        truncate=config.yarn.truncate,
    )


class Attention(nn.Module):
    """Grouped-query attention with rotary positions, over the cache where there is one."""

    def __init__(self, config: QwenConfig, layer_index: int) -> None:
        super().__init__()
        self.layer_index = layer_index
        self.head_dim = config.head_dim
        self.scale = config.head_dim**-0.5
        query_size = config.num_attention_heads * config.head_dim
        key_value_size = config.num_key_value_heads * config.head_dim
        bias = config.attention_bias
        self.q_proj = Linear(config.hidden_size, query_size, bias=bias)
        self.k_proj = Linear(config.hidden_size, key_value_size, bias=bias)
        self.v_proj = Linear(config.hidden_size, key_value_size, bias=bias)
        self.o_proj = Linear(query_size, config.hidden_size)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps) if config.qk_norm else None
        self.window = config.attention_windows[layer_index] if config.attention_windows else None

    def forward(
        self,
        hidden_states: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
        cache: KVCache | None,
        ops: Ops,
    ) -> Tensor:
        """`[batch, length, hidden] -> [batch, length, hidden]`."""
        query = self._heads(self.q_proj(hidden_states, ops))
        key = self._heads(self.k_proj(hidden_states, ops))
        value = self._heads(self.v_proj(hidden_states, ops)).transpose(1, 2)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query, ops), self.k_norm(key, ops)
        query = ops.apply_rope(query.transpose(1, 2), cos, sin)
        key = ops.apply_rope(key.transpose(1, 2), cos, sin)
        how = (mask, self.scale, self.window, ops)
        if cache is None:
            attended = attention_within_window(query, key, value, *how)
        else:
            attended = cache.attend(self.layer_index, query, key, value, *how)
        output: Tensor = self.o_proj(attended.transpose(1, 2).flatten(2), ops)
        return output

    def _heads(self, projected: Tensor) -> Tensor:
        """`[batch, length, heads * head_dim] -> [batch, length, heads, head_dim]`."""
        batch, length, _ = projected.shape
        return projected.view(batch, length, -1, self.head_dim)


class MLP(nn.Module):
    """SwiGLU: `down(silu(gate(x)) * up(x))`."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states: Tensor, ops: Ops) -> Tensor:
        """`[batch, length, hidden] -> [batch, length, hidden]`."""
        gate, up = self.gate_proj(hidden_states, ops), self.up_proj(hidden_states, ops)
        output: Tensor = self.down_proj(ops.swiglu(gate, up), ops)
        return output


class DecoderLayer(nn.Module):
    """norm, attention, residual; norm, MLP, residual. Residuals add in the model's dtype."""

    def __init__(self, config: QwenConfig, layer_index: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer_index)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(
        self,
        hidden_states: Tensor,
        cos: Tensor,
        sin: Tensor,
        mask: Tensor | None,
        cache: KVCache | None,
        ops: Ops,
    ) -> Tensor:
        """`[batch, length, hidden] -> [batch, length, hidden]`."""
        normed = self.input_layernorm(hidden_states, ops)
        attended: Tensor = self.self_attn(normed, cos, sin, mask, cache, ops)
        hidden_states = hidden_states + attended
        normed = self.post_attention_layernorm(hidden_states, ops)
        transformed: Tensor = self.mlp(normed, ops)
        return hidden_states + transformed
