"""A checkpoint that is not what its config.json says is refused, and what does not fit is named."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from augur.loading import load_model
from augur_model import ModelError
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_weights import Checkpoint, CheckpointError

QWEN3 = {"model_type": "qwen3", "head_dim": 16}

# What the weights are, what config.json claims, and what the message has to name.
MISLABELLED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "Qwen3 as Qwen2": (
        QWEN3,
        {"model_type": "qwen2"},
        ("model.layers.0.self_attn.k_norm.weight", "model.layers.0.self_attn.q_proj.bias"),
    ),
    "Qwen2 as Qwen3": (
        {"head_dim": 16},
        {"model_type": "qwen3"},
        ("model.layers.0.self_attn.k_norm.weight", "model.layers.0.self_attn.k_proj.bias"),
    ),
    "untied as tied": ({"tie_word_embeddings": False}, {"tie_word_embeddings": True}, ("differ",)),
    "tied as untied": (
        {"tie_word_embeddings": True},
        {"tie_word_embeddings": False},
        ("lm_head.weight",),
    ),
    "more layers": ({}, {"num_hidden_layers": 3}, ("model.layers.2.input_layernorm.weight",)),
    "fewer layers": ({}, {"num_hidden_layers": 1}, ("model.layers.1.input_layernorm.weight",)),
    "more heads for keys": (
        {},
        {"num_key_value_heads": 4},
        ("self_attn.k_proj.weight", "[16, 32]", "[32, 32]"),
    ),
    "another vocabulary": ({}, {"vocab_size": 304}, ("model.embed_tokens.weight", "[304, 32]")),
    "a wider model": ({}, {"hidden_size": 64, "head_dim": 8}, ("[303, 32]", "[303, 64]")),
}


def relabel(folder: Path, **claims: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | claims
    path.write_text(json.dumps(config), encoding="utf-8")


def load(folder: Path) -> None:
    load_model(Checkpoint(folder), device=torch.device("cpu"), dtype=torch.float32)


@pytest.mark.parametrize("case", MISLABELLED)
def test_what_does_not_fit_is_named_and_nothing_is_loaded(case: str, tmp_path: Path) -> None:
    truth, claims, named = MISLABELLED[case]
    folder = write_tiny_checkpoint(tmp_path / "checkpoint", **truth)
    load(folder)  # as it is, it fits
    relabel(folder, **claims)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    for part in (*named, "Nothing was loaded"):
        assert part in str(caught.value)


@pytest.mark.parametrize("model_type", ["llama", "qwen2_moe", "qwen2_vl", "", None, 2, ["qwen2"]])
def test_another_family_is_refused_by_its_name(model_type: object, tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    relabel(folder, model_type=model_type)
    with pytest.raises(ModelError) as caught:
        load(folder)
    assert f"{folder}: model_type is {model_type!r}; supported: qwen2, qwen3" in str(caught.value)
