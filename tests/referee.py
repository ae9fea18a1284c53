"""transformers' side of every comparison: its Qwen2 with eager attention.

Newer transformers 5 calls the forward pass's cache argument `cache`, older ones
`past_key_values`; whichever the installed release has is used.
"""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
)

from augur_proof.random_weights import fill_randomly

CACHE_ARGUMENT = (
    "cache"
    if "cache" in inspect.signature(Qwen2ForCausalLM.forward).parameters
    else "past_key_values"
)


def referee_config(*, model_type: str = "qwen2", **changes: Any) -> Qwen2Config | Qwen3Config:
    """A tiny Qwen2 or Qwen3 (2 layers, hidden 32, heads 4/2), with `changes`."""
    values: dict[str, Any] = {
        "vocab_size": 128,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "tie_word_embeddings": False,
        "attn_implementation": "eager",
    }
    config_class = {"qwen2": Qwen2Config, "qwen3": Qwen3Config}[model_type]
    return config_class(**{**values, **changes})


def build_referee(
    config: Qwen2Config,
    dtype: torch.dtype = torch.float32,
    *,
    seed: int = 0,
    embedding_scale: float = 0.1,
) -> Qwen2ForCausalLM:
    """A referee with random weights, in the state that `from_pretrained(dtype=...)` gives it."""
    referee = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    fill_randomly(referee, seed=seed, embedding_scale=embedding_scale)
    # Parameter by parameter: `referee.to(dtype)` would round the rotary frequencies as well, which
    # loading a checkpoint does not.
    for parameter in referee.parameters():
        parameter.data = parameter.data.to(dtype)
    referee.config.dtype = dtype
    return referee.eval().requires_grad_(False)


def load_referee(folder: Path, dtype: torch.dtype) -> Qwen2ForCausalLM:
    """A checkpoint folder as transformers opens it."""
    referee = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    for parameter in referee.parameters():
        # It may leave weights in the mapped file, at addresses that are not aligned; the matrix
        # library then sums in another order.
        parameter.data = parameter.data.clone()
    return referee.eval().requires_grad_(False)


@torch.inference_mode()
def referee_logits(
    referee: Qwen2ForCausalLM,
    token_ids: Tensor,
    sizes: Sequence[int] | None = None,
    *,
    logits_to_keep: int = 0,
) -> Tensor:
    """Logits of `token_ids` `[batch, length]`, fed in pieces of `sizes` tokens through one cache.

    Without `sizes`, all at once and without a cache. `logits_to_keep` counts in each piece; 0
    keeps all.
    """
    if sizes is None:
        return referee(token_ids, use_cache=False, logits_to_keep=logits_to_keep).logits
    cache = {CACHE_ARGUMENT: DynamicCache(config=referee.config)}
    pieces = [
        referee(piece, use_cache=True, logits_to_keep=logits_to_keep, **cache).logits
        for piece in token_ids.split(list(sizes), dim=1)
    ]
    return torch.cat(pieces, dim=1)


def rendered_ids(rendered: Any) -> list[int]:
    """The ids that `apply_chat_template(..., tokenize=True)` gave.

    transformers 5 returns a mapping with "input_ids", earlier releases a plain list; either may
    hold a batch of one.
    """
    token_ids = rendered["input_ids"] if isinstance(rendered, Mapping) else rendered
    return list(token_ids[0] if isinstance(token_ids[0], Sequence) else token_ids)
