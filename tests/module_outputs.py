"""One module, both sides: each function gives what augur computes and what transformers does."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache, Qwen2Config
from transformers.models.qwen2 import modeling_qwen2

from augur_gen import StaticKVCache
from augur_model import (
    EAGER,
    MLP,
    Attention,
    DecoderLayer,
    KVCache,
    Ops,
    QwenConfig,
    RMSNorm,
    RotaryEmbedding,
)
from augur_proof.random_weights import fill_randomly
from referee import CACHE_ARGUMENT


class Outputs(NamedTuple):
    """The same computation by both sides."""

    found: Tensor
    expected: Tensor


def hidden_states(
    batch: int, length: int, width: int, dtype: torch.dtype, layout: str = "contiguous"
) -> Tensor:
    """Random `[batch, length, width]`: contiguous, a "transposed" view, or a view with "gaps"."""
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    values = torch.randn(batch, length, width, generator=generator).to(dtype)
    if layout == "transposed":
        return values.transpose(0, 1).contiguous().transpose(0, 1)
    if layout == "gaps":
        return values.repeat_interleave(2, dim=-1)[..., ::2]
    return values


def norm_outputs(inputs: Tensor, weight: Tensor, eps: float = 1e-6, ops: Ops = EAGER) -> Outputs:
    """RMSNorm of `inputs` `[..., width]`."""
    referee = modeling_qwen2.Qwen2RMSNorm(weight.shape[0], eps=eps)
    referee.weight.data = weight
    candidate = RMSNorm(weight.shape[0], eps)
    candidate.weight.data = weight
    return _outputs(candidate(inputs, ops), referee(inputs))


def rotary_tables(
    config: Qwen2Config, positions: Tensor, dtype: torch.dtype
) -> tuple[Outputs, Outputs]:
    """Cosine and sine of `positions` `[batch, length]`."""
    ours = QwenConfig.from_dict(config.to_dict())
    found = RotaryEmbedding(ours)(positions, dtype)
    # Of its first argument, the referee looks at dtype and device alone.
    expected = modeling_qwen2.Qwen2RotaryEmbedding(config)(torch.empty(0, dtype=dtype), positions)
    return Outputs(found[0], expected[0]), Outputs(found[1], expected[1])


def rotated_heads(heads: Tensor, cos: Tensor, sin: Tensor, ops: Ops = EAGER) -> Outputs:
    """`heads` `[batch, num_heads, length, head_dim]`, rotated."""
    expected, _ = modeling_qwen2.apply_rotary_pos_emb(heads, heads, cos, sin)
    return _outputs(ops.apply_rope(heads, cos, sin), expected)


def mlp_outputs(config: Qwen2Config, inputs: Tensor, ops: Ops = EAGER) -> Outputs:
    """The MLP on `inputs` `[batch, length, hidden]`."""
    referee = modeling_qwen2.Qwen2MLP(config)
    candidate = _same_weights(MLP(QwenConfig.from_dict(config.to_dict())), referee, inputs.dtype)
    return _outputs(candidate(inputs, ops), referee(inputs))


def attention_outputs(
    config: Qwen2Config, inputs: Tensor, ops: Ops = EAGER, sizes: tuple[int, ...] | None = None
) -> Outputs:
    """Attention over `inputs` `[batch, length, hidden]` at positions from 0 on.

    With `sizes`, fed in pieces of that many positions through a cache.
    """
    referee = modeling_qwen2.Qwen2Attention(config, layer_idx=0)
    candidate = Attention(QwenConfig.from_dict(config.to_dict()), 0)
    _same_weights(candidate, referee, inputs.dtype)
    return _attending_outputs(config, candidate, referee, inputs, ops, sizes)


def block_outputs(
    config: Qwen2Config, inputs: Tensor, ops: Ops = EAGER, sizes: tuple[int, ...] | None = None
) -> Outputs:
    """A decoder block; arguments as of `attention_outputs`."""
    referee = modeling_qwen2.Qwen2DecoderLayer(config, layer_idx=0)
    candidate = DecoderLayer(QwenConfig.from_dict(config.to_dict()), 0)
    _same_weights(candidate, referee, inputs.dtype)
    return _attending_outputs(config, candidate, referee, inputs, ops, sizes)


@torch.inference_mode()
def _attending_outputs(
    config: Qwen2Config,
    candidate: nn.Module,
    referee: nn.Module,
    inputs: Tensor,
    ops: Ops,
    sizes: tuple[int, ...] | None,
) -> Outputs:
    batch, length, _ = inputs.shape
    referee_cache = DynamicCache(config=config) if sizes else None
    cache: KVCache | None = None
    if sizes:
        cache = StaticKVCache(
            QwenConfig.from_dict(config.to_dict()),
            length + 3,
            batch_size=batch,
            dtype=inputs.dtype,
            device="cpu",
        )
    found, expected, past = [], [], 0
    for piece in inputs.split(sizes or [length], dim=1):
        positions = torch.arange(past, past + piece.shape[1])[None]
        # Both sides get the referee's tables: here attention alone is compared.
        cos, sin = modeling_qwen2.Qwen2RotaryEmbedding(config)(piece, positions)
        found.append(candidate(piece, cos, sin, None, cache, ops))
        expected.append(
            referee(
                hidden_states=piece,
                position_embeddings=(cos, sin),
                attention_mask=_additive_mask(piece.shape[1], past, inputs.dtype),
                **{CACHE_ARGUMENT: referee_cache},
            )
        )
        past += piece.shape[1]
        if cache is not None:
            cache.advance(piece.shape[1])
    expected = [output[0] if isinstance(output, tuple) else output for output in expected]
    return _outputs(torch.cat(found, dim=1), torch.cat(expected, dim=1))


def _additive_mask(length: int, past: int, dtype: torch.dtype) -> Tensor:
    """`[1, 1, length, past + length]`: 0 where a query may look, else the dtype's lowest number."""
    lowest = torch.full((length, past + length), torch.finfo(dtype).min, dtype=dtype)
    return lowest.triu(past + 1)[None, None]


def _same_weights(candidate: nn.Module, referee: nn.Module, dtype: torch.dtype) -> nn.Module:
    fill_randomly(referee, seed=1)
    # These modules hold no rotary frequencies, so `to` rounds weights alone.
    referee.to(dtype).requires_grad_(False)
    candidate.to(dtype).load_state_dict(referee.state_dict())
    return candidate


def _outputs(found: Tensor, expected: Tensor) -> Outputs:
    return Outputs(found.detach(), expected.detach())
