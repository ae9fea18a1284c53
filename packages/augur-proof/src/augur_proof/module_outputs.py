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
    Ops,
    QwenConfig,
    RMSNorm,
    RotaryEmbedding,
)
from augur_proof.checks import Outputs
from augur_proof.random_weights import fill_randomly
from augur_proof.transformers_api import (
    cache_argument,
    config_object,
    family_modules,
    import_transformers,
)

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
    referee = family_modules("qwen2").Qwen2RMSNorm(weight.shape[0], eps=eps)
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
    expected, _ = family_modules("qwen2").apply_rotary_pos_emb(heads, heads, cos, sin)
    return Outputs(ops.apply_rope(heads, cos, sin), expected)


def mlp_outputs(config: Config, inputs: Tensor, ops: Ops = EAGER) -> Outputs:
    """The MLP on `inputs` `[batch, length, hidden]`."""
    candidate = MLP(QwenConfig.from_dict(config))
    referee = _referee_twin(candidate, config, inputs.dtype)
    return Outputs(candidate(inputs, ops), referee(inputs))


def attention_outputs(
    config: Config, inputs: Tensor, ops: Ops = EAGER, sizes: Sequence[int] | None = None
) -> Outputs:
    """Attention over `inputs` `[batch, length, hidden]` at positions from 0 on.

    With `sizes`, fed in pieces of that many positions through a cache.
    """
    return _attending(Attention(QwenConfig.from_dict(config), 0), config, inputs, ops, sizes)


def block_outputs(
    config: Config, inputs: Tensor, ops: Ops = EAGER, sizes: Sequence[int] | None = None
) -> Outputs:
    """A decoder block; arguments as of `attention_outputs`."""
    return _attending(DecoderLayer(QwenConfig.from_dict(config), 0), config, inputs, ops, sizes)


@torch.inference_mode()
def _attending(
    candidate: nn.Module, config: Config, inputs: Tensor, ops: Ops, sizes: Sequence[int] | None
) -> Outputs:
    referee = _referee_twin(candidate, config, inputs.dtype, layer_idx=0)
    (batch, length, _), dtype = inputs.shape, inputs.dtype
    cache, their_cache = None, None
    if sizes is not None:
        ours = QwenConfig.from_dict(config)
        cache = StaticKVCache(ours, length + 3, batch_size=batch, dtype=dtype, device="cpu")
        their_cache = import_transformers().DynamicCache(config=config_object(config))
    cache_name = cache_argument(_referee_class(config, "ForCausalLM"))
    found, expected, past = [], [], 0
    for piece in torch.split(inputs, list(sizes or [length]), dim=1):
        end = past + piece.shape[1]
        # Both sides get the referee's tables: here attention alone is compared.
        tables = _referee_tables(config, torch.arange(past, end)[None], dtype)
        found.append(candidate(piece, *tables, None, cache, ops))
        lowest = torch.full((end - past, end), torch.finfo(dtype).min, dtype=dtype)
        output = referee(
            hidden_states=piece,
            position_embeddings=tables,
            attention_mask=lowest.triu(past + 1)[None, None],  # 0 where a query may look
            **{cache_name: their_cache},
        )
        expected.append(output[0] if isinstance(output, tuple) else output)
        past = end
        if cache is not None:
            cache.advance(piece.shape[1])
    return Outputs(torch.cat(found, dim=1), torch.cat(expected, dim=1))


def _referee_tables(config: Config, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    module = _referee_class(config, "RotaryEmbedding")(config_object(config))
    # Of its first argument, the referee looks at dtype and device alone.
    cos, sin = module(torch.empty(0, dtype=dtype), positions)
    return cos, sin


def _referee_twin(candidate: nn.Module, config: Config, dtype: torch.dtype, **more: Any) -> Any:
    """transformers' module of the same kind, and random weights of this dtype for both."""
    referee = _referee_class(config, type(candidate).__name__)(config_object(config), **more)
    fill_randomly(referee, seed=1)
    # These modules hold no rotary frequencies, so `to` rounds weights alone.
    referee.to(dtype).requires_grad_(False)
    candidate.to(dtype).load_state_dict(referee.state_dict())
    return referee


def _referee_class(config: Config, name: str) -> Any:
    """transformers' class of the config's family: "MLP" -> `Qwen2MLP`."""
    family: str = config["model_type"]
    return getattr(family_modules(family), f"{family.capitalize()}{name}")
