"""Every dense Qwen2, Qwen2.5 and Qwen3 equals transformers to the last bit, long contexts too.

Each published size stands here with its own head grouping, head_dim, tying and biases, scaled down
in layers and width.
"""

import dataclasses
from typing import Any

import pytest
import torch

from augur_model import QwenConfig, QwenForCausalLM
from augur_proof import (
    DTYPES,
    LONG_KINDS,
    PUBLISHED,
    ComparisonError,
    Referee,
    check_same_bits,
    pair_of,
    published_config,
    random_token_ids,
    scaled_down_config,
    tiny_config,
)

each_dtype = pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.gate)],
    ids=str,
)


# Both families, tied and not; the gate runs the others.
BY_DEFAULT = {"Qwen2.5-0.5B", "Qwen2.5-7B", "Qwen3-0.6B", "Qwen3-8B"}


@each_dtype
@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(
            pytest.param(name, {}, marks=() if name in BY_DEFAULT else pytest.mark.gate)
            for name in PUBLISHED
        ),
        pytest.param("Qwen2.5-72B", {"rms_norm_eps": 1e-5}, marks=pytest.mark.gate),
    ],
)
def test_each_published_size_equals_transformers(
    name: str, change: dict[str, Any], dtype: torch.dtype
) -> None:
    pytest.importorskip("transformers")
    pair = pair_of(Referee.random(scaled_down_config(name) | change, dtype))
    sizes = (11, *[1] * 8)
    check_same_bits(*pair.logits(random_token_ids(2, sum(sizes)), sizes))


# Prefill and decode below, across and above the original length of 64 positions, and in chunks.
HALVES = ("bfloat16", "float16")
FEEDS = [(10, *[1] * 4), (60, *[1] * 9), (200, *[1] * 3), (20, 33, 1, 1, 50, 1)]


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, *(pytest.param(DTYPES[name], marks=pytest.mark.gate) for name in HALVES)],
    ids=str,
)
@pytest.mark.parametrize("kind", LONG_KINDS)
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
def test_long_contexts_equal_transformers(model_type: str, kind: str, dtype: torch.dtype) -> None:
    pytest.importorskip("transformers")
    changes = {"model_type": model_type, "head_dim": 16, "num_hidden_layers": 3}
    pair = pair_of(Referee.random(tiny_config(**changes | LONG_KINDS[kind]), dtype))
    for sizes in FEEDS:
        check_same_bits(*pair.logits(random_token_ids(1, sum(sizes)), sizes))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("yarn", {"yarn": None}),
        ("window shorter than the prompt", {"attention_windows": (None, 8, 8)}),
        ("window shorter than the prompt", {"attention_windows": ()}),
    ],
)
def test_a_setting_left_out_or_off_by_one_is_found(kind: str, change: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    referee = Referee.random(tiny_config(head_dim=16, **LONG_KINDS[kind]))
    broken = pair_of(referee, dataclasses.replace(referee.config, **change))
    with pytest.raises(ComparisonError):
        check_same_bits(*broken.logits(random_token_ids(1, 60)))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name: str) -> None:
    config = QwenConfig.from_dict(published_config(name))
    with torch.device("meta"):
        model = QwenForCausalLM(config)
    *_, published = PUBLISHED[name]
    assert sum(parameter.numel() for parameter in model.parameters()) == published
    assert config.num_parameters == published
