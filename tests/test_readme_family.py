"""The README's table of sizes says what the configs say."""

import re
from pathlib import Path

import pytest
import torch

from augur.memory_plan import MemoryPlan
from augur_model import SUPPORTED_MODEL_TYPES, QwenConfig
from augur_proof.published_sizes import PUBLISHED, published_config

README = Path(__file__).resolve().parents[1] / "README.md"


def section() -> str:
    text = README.read_text(encoding="utf-8")
    return text.partition("\n## The family\n")[2].partition("\n## ")[0]


def row(name: str) -> str:
    """The README's line for a size, from its config."""
    config = QwenConfig.from_dict(published_config(name))
    plan = MemoryPlan.of(config)
    cells = (
        name,
        config.num_hidden_layers,
        config.hidden_size,
        f"{config.num_attention_heads} / {config.num_key_value_heads}",
        config.head_dim,
        "yes" if config.tie_word_embeddings else "no",
        f"{config.num_parameters:,}",
        f"{plan.cache_bytes_per_token(torch.bfloat16):,}",
    )
    return f"| {' | '.join(map(str, cells))} |"


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_size_has_its_row(name: str) -> None:
    assert row(name) in section().splitlines()


def test_no_row_is_left_over() -> None:
    named = re.findall(r"^\| (Qwen[\w.-]+) \|", section(), flags=re.MULTILINE)
    assert sorted(named) == sorted(PUBLISHED)


def test_the_types_that_are_supported_are_named() -> None:
    for model_type in SUPPORTED_MODEL_TYPES:
        assert f"`{model_type}`" in section()
