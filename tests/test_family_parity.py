"""Every dense Qwen2, Qwen2.5 and Qwen3 equals transformers to the last bit, long contexts too.

Each published size stands here with its own head grouping, head_dim, tying, biases and theta,
scaled down in layers and width.
"""

import dataclasses
from typing import Any

import pytest
import torch

from augur_model import QwenConfig, QwenForCausalLM
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


# layers, hidden, MLP, heads, kv heads, head_dim, vocabulary, tied, parameters as published
PUBLISHED = {
    "Qwen2.5-0.5B": (24, 896, 4864, 14, 2, 64, 151936, True, 494_032_768),
    "Qwen2.5-1.5B": (28, 1536, 8960, 12, 2, 128, 151936, True, 1_543_714_304),
    "Qwen2.5-3B": (36, 2048, 11008, 16, 2, 128, 151936, True, 3_085_938_688),
    "Qwen2.5-7B": (28, 3584, 18944, 28, 4, 128, 152064, False, 7_615_616_512),
    "Qwen2.5-14B": (48, 5120, 13824, 40, 8, 128, 152064, False, 14_770_033_664),
    "Qwen2.5-32B": (64, 5120, 27648, 40, 8, 128, 152064, False, 32_763_876_352),
    "Qwen2.5-72B": (80, 8192, 29568, 64, 8, 128, 152064, False, 72_706_203_648),
    "Qwen3-0.6B": (28, 1024, 3072, 16, 8, 128, 151936, True, 596_049_920),
    "Qwen3-1.7B": (28, 2048, 6144, 16, 8, 128, 151936, True, 1_720_574_976),
    "Qwen3-4B": (36, 2560, 9728, 32, 8, 128, 151936, True, 4_022_468_096),
    "Qwen3-8B": (36, 4096, 12288, 32, 8, 128, 151936, False, 8_190_735_360),
    "Qwen3-14B": (40, 5120, 17408, 40, 8, 128, 151936, False, 14_768_307_200),
    "Qwen3-32B": (64, 5120, 25600, 64, 8, 128, 151936, False, 32_762_123_264),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str) -> None:
    layers, hidden, mlp, heads, kv_heads, head_dim, vocabulary, tied, published = PUBLISHED[name]
    config = QwenConfig.from_dict(
        {
            "model_type": "qwen3" if name.startswith("Qwen3") else "qwen2",
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "intermediate_size": mlp,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "vocab_size": vocabulary,
            "tie_word_embeddings": tied,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000.0,
        }
    )
    with torch.device("meta"):
        model = QwenForCausalLM(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == published
