"""One op or module, both sides: each function gives what augur computes and what transformers does.

The weights are random and the same on both sides, and so are the inputs: a difference is the ops'.
Each of them raises `ProofError` where transformers is not installed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

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
from augur_proof.checks import Outputs
from augur_proof.random_weights import fill_randomly
from augur_proof.referee import cache_argument, import_transformers, referee_config, referee_modules

Config = Mapping[str, Any]
"""What a config.json holds, as `tiny_config` gives it."""


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
    referee = referee_modules("qwen2").Qwen2RMSNorm(weight.shape[0], eps=eps)
    candidate = RMSNorm(weight.shape[0], eps)
    candidate.weight.data = referee.weight.data = weight
    return Outputs(candidate(inputs, ops), referee(inputs).detach())


def rotary_tables(config: Config, positions: Tensor, dtype: torch.dtype) -> tuple[Outputs, Outputs]:
    """Cosine and sine of `positions` `[batch, length]`."""
    found = RotaryEmbedding(QwenConfig.from_dict(config))(positions, dtype)
    expected = _referee_tables(config, positions, dtype)
    return Outputs(found[0], expected[0]), Outputs(found[1], expected[1])


def rotated_heads(heads: Tensor, cos: Tensor, sin: Tensor, ops: Ops = EAGER) -> Outputs:
    """`heads` `[batch, num_heads, length, head_dim]`, rotated."""
    expected, _ = referee_modules("qwen2").apply_rotary_pos_emb(heads, heads, cos, sin)
    return Outputs(ops.apply_rope(heads, cos, sin), expected)


def mlp_outputs(config: Config, inputs: Tensor, ops: Ops = EAGER) -> Outputs:
    """The MLP on `inputs` `[batch, length, hidden]`."""
    candidate = MLP(QwenConfig.from_dict(config))
    referee = _same_weights(
        candidate, _referee_class(config, "MLP")(referee_config(config)), inputs
    )
    return Outputs(candidate(inputs, ops), referee(inputs))


def attention_outputs(
    config: Config, inputs: Tensor, ops: Ops = EAGER, sizes: Sequence[int] | None = None
) -> Outputs:
    """Attention over `inputs` `[batch, length, hidden]` at positions from 0 on.

    With `sizes`, fed in pieces of that many positions through a cache.
    """
    return _attending_outputs(Attention, config, inputs, ops, sizes)


def block_outputs(
    config: Config, inputs: Tensor, ops: Ops = EAGER, sizes: Sequence[int] | None = None
) -> Outputs:
    """A decoder block; arguments as of `attention_outputs`."""
    return _attending_outputs(DecoderLayer, config, inputs, ops, sizes)


@torch.inference_mode()
def _attending_outputs(
    kind: type[Attention | DecoderLayer],
    config: Config,
    inputs: Tensor,
    ops: Ops,
    sizes: Sequence[int] | None,
) -> Outputs:
    ours, theirs = QwenConfig.from_dict(config), referee_config(config)
    candidate = kind(ours, 0)
    referee = _referee_class(config, kind.__name__)(theirs, layer_idx=0)
    _same_weights(candidate, referee, inputs)
    batch, length, _ = inputs.shape
    cache: KVCache | None = None
    referee_cache = None
    if sizes is not None:
        referee_cache = import_transformers().DynamicCache(config=theirs)
        cache = StaticKVCache(
            ours, length + 3, batch_size=batch, dtype=inputs.dtype, device=inputs.device
        )
    cache_name = cache_argument(_referee_class(config, "ForCausalLM"))
    found, expected, past = [], [], 0
    for piece in torch.split(inputs, list(sizes or [length]), dim=1):
        positions = torch.arange(past, past + piece.shape[1])[None]
        # Both sides get the referee's tables: here attention alone is compared.
        cos, sin = _referee_tables(config, positions, piece.dtype)
        found.append(candidate(piece, cos, sin, None, cache, ops))
        output = referee(
            hidden_states=piece,
            position_embeddings=(cos, sin),
            attention_mask=_additive_mask(piece.shape[1], past, inputs.dtype),
            **{cache_name: referee_cache},
        )
        expected.append(output[0] if isinstance(output, tuple) else output)
        past += piece.shape[1]
        if cache is not None:
            cache.advance(piece.shape[1])
    return Outputs(torch.cat(found, dim=1), torch.cat(expected, dim=1))


def _referee_class(config: Config, name: str) -> Any:
    """transformers' class of the config's family: "MLP" -> `Qwen2MLP`."""
    family: str = config["model_type"]
    return getattr(referee_modules(family), f"{family.capitalize()}{name}")


def _referee_tables(config: Config, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    # Of its first argument, the referee looks at dtype and device alone.
    tables: tuple[Tensor, Tensor] = _referee_class(config, "RotaryEmbedding")(
        referee_config(config)
    )(torch.empty(0, dtype=dtype), positions)
    return tables


def _additive_mask(length: int, past: int, dtype: torch.dtype) -> Tensor:
    """`[1, 1, length, past + length]`: 0 where a query may look, else the dtype's lowest number."""
    lowest = torch.full((length, past + length), torch.finfo(dtype).min, dtype=dtype)
    return lowest.triu(past + 1)[None, None]


def _same_weights(candidate: nn.Module, referee: nn.Module, inputs: Tensor) -> nn.Module:
    """Random ones of the inputs' dtype, for both; gives the referee's module."""
    fill_randomly(referee, seed=1)
    # These modules hold no rotary frequencies, so `to` rounds weights alone.
    referee.to(inputs.dtype).requires_grad_(False)
    candidate.to(inputs.dtype).load_state_dict(referee.state_dict())
    return referee
