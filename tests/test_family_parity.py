"""Every dense Qwen2, Qwen2.5 and Qwen3 equals transformers to the last bit, long contexts too.

Each published size stands here with its own head grouping, head_dim, tying, biases and theta,
scaled down in layers and width.
"""

import dataclasses
from typing import Any

import pytest
import torch

from augur_model import QwenConfig, QwenForCausalLM
from augur_proof.published_sizes import PUBLISHED, published_config
from candidate import candidate_logits, candidate_of
from comparison import DTYPES, ComparisonError, check_same_bits
from referee import build_referee, referee_config, referee_logits
from tiny_pairs import random_token_ids

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

THETA = {"rope_type": "default", "rope_theta": 1_000_000.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}


def size(heads: int, kv_heads: int, head_dim: int, *, tied: bool, **more: Any) -> dict[str, Any]:
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": 16 * heads,
        "tie_word_embeddings": tied,
        "rope_parameters": THETA,
        **more,
    }


QWEN3 = {"model_type": "qwen3"}
SIZES = {
    "Qwen2.5-0.5B": size(14, 2, 64, tied=True),
    "Qwen2.5-1.5B": size(12, 2, 128, tied=True),
    "Qwen2.5-3B": size(16, 2, 128, tied=True),
    "Qwen2.5-7B": size(28, 4, 128, tied=False),
    "Qwen2.5-14B and 32B": size(40, 8, 128, tied=False),
    "Qwen2.5-72B": size(64, 8, 128, tied=False, rms_norm_eps=1e-5),
    "Qwen3-0.6B and 1.7B": size(16, 8, 128, tied=True, **QWEN3),
    "Qwen3-4B": size(32, 8, 128, tied=True, **QWEN3),
    "Qwen3-8B": size(32, 8, 128, tied=False, **QWEN3),
    "Qwen3-14B": size(40, 8, 128, tied=False, **QWEN3),
    "Qwen3-32B": size(64, 8, 128, tied=False, **QWEN3),
}


@each_dtype
@pytest.mark.parametrize("name", SIZES)
def test_each_published_size_equals_transformers(name: str, dtype: torch.dtype) -> None:
    referee = build_referee(referee_config(**SIZES[name]), dtype)
    sizes = (11, *[1] * 8)
    token_ids = random_token_ids(2, sum(sizes))
    check_same_bits(
        candidate_logits(candidate_of(referee), token_ids, sizes),
        referee_logits(referee, token_ids, sizes),
    )


LONG = {
    "yarn": {"rope_parameters": YARN},
    "yarn with all settings": {
        "rope_parameters": {
            **YARN,
            "attention_factor": 1.3,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "truncate": False,
        }
    },
    "window shorter than the prompt": {"sliding_window": 7},
    "window longer than the prompt": {"sliding_window": 110},
    "yarn and window": {"rope_parameters": YARN, "sliding_window": 24},
}
# Prefill and decode below, across and above the original length of 64 positions, and in chunks.
FEEDS = [(10, *[1] * 4), (60, *[1] * 9), (200, *[1] * 3), (20, 33, 1, 1, 50, 1)]


def long_context(name: str, model_type: str) -> dict[str, Any]:
    changes = {"model_type": model_type, "head_dim": 16, "num_hidden_layers": 3, **LONG[name]}
    if "sliding_window" in changes:
        changes |= {"use_sliding_window": True, "max_window_layers": 1}
    return changes


@each_dtype
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_long_contexts_equal_transformers(model_type: str, name: str, dtype: torch.dtype) -> None:
    referee = build_referee(referee_config(**long_context(name, model_type)), dtype)
    candidate = candidate_of(referee)
    for sizes in FEEDS:
        token_ids = random_token_ids(1, sum(sizes))
        check_same_bits(
            candidate_logits(candidate, token_ids, sizes),
            referee_logits(referee, token_ids, sizes),
        )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("yarn", {"yarn": None}),
        ("window shorter than the prompt", {"attention_windows": (None, 8, 8)}),
        ("window shorter than the prompt", {"attention_windows": ()}),
    ],
)
def test_a_setting_left_out_or_off_by_one_is_found(name: str, change: dict[str, Any]) -> None:
    referee = build_referee(referee_config(**long_context(name, "qwen2")))
    right = QwenConfig.from_dict(referee.config.to_dict())
    broken = candidate_of(referee, config=dataclasses.replace(right, **change))
    token_ids = random_token_ids(1, 60)
    with pytest.raises(ComparisonError):
        check_same_bits(candidate_logits(broken, token_ids), referee_logits(referee, token_ids))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str) -> None:
    config = QwenConfig.from_dict(published_config(name))
    with torch.device("meta"):
        model = QwenForCausalLM(config)
    *_, published = PUBLISHED[name]
    assert sum(parameter.numel() for parameter in model.parameters()) == published
    assert config.num_parameters == published
