"""Tiny random models, each as transformers' referee and augur's candidate with equal weights."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM

from augur_model import QwenForCausalLM
from candidate import candidate_of
from referee import build_referee, referee_config

TINY_CONFIGS: dict[str, dict[str, Any]] = {
    "untied": {},
    "tied": {"tie_word_embeddings": True},
    "head_dim above hidden over heads": {"head_dim": 16},
    "one head": {"num_attention_heads": 1, "num_key_value_heads": 1},
    "fourteen heads on two": {
        "hidden_size": 112,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
    "large epsilon, small theta": {
        "rms_norm_eps": 1e-2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}


class Pair(NamedTuple):
    """Both sides of one model. They are shared between tests: read, never changed."""

    candidate: QwenForCausalLM
    referee: Qwen2ForCausalLM


@cache
def tiny_pair(name: str, dtype: torch.dtype) -> Pair:
    """The model of `TINY_CONFIGS[name]`."""
    referee = build_referee(referee_config(**TINY_CONFIGS[name]), dtype)
    return Pair(candidate_of(referee), referee)


def random_token_ids(batch: int, length: int, vocab_size: int = 128) -> Tensor:
    """`[batch, length]`, int64; the same for the same arguments."""
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    return torch.randint(vocab_size, (batch, length), generator=generator)
