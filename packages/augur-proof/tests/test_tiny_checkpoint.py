"""A tiny checkpoint of any kind is whole: augur opens it, and transformers finds the same in it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from augur_proof import (
    KINDS,
    LONG_KINDS,
    Candidate,
    Pair,
    Referee,
    check_same_bits,
    random_token_ids,
    write_tiny_checkpoint,
)
from augur_tok import Tokenizer

KINDS_OF_CHECKPOINTS: dict[str, dict[str, Any]] = {
    **KINDS,
    **LONG_KINDS,
    "qwen3": {"model_type": "qwen3"},
    "qwen3, untied": {"model_type": "qwen3", "tie_word_embeddings": False},
    "sharded": {"max_shard_bytes": 20_000},
    "sharded and untied": {"max_shard_bytes": 20_000, "tie_word_embeddings": False},
}
TEXT = "Why? 你好 ¿Por qué? don't 12345  <|im_end|>\n"


@pytest.mark.parametrize("kind", KINDS_OF_CHECKPOINTS)
def test_both_sides_compute_the_same_from_it(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = write_tiny_checkpoint(tmp_path, **KINDS_OF_CHECKPOINTS[kind])
    pair = Pair(*(side.load(folder, dtype=torch.float32) for side in (Candidate, Referee)))
    check_same_bits(*pair.logits(random_token_ids(2, 40, vocab_size=300), (30, *[1] * 10)))
    found = Tokenizer.from_folder(folder).encode(TEXT, allow_special=True)
    assert found == pair.referee.tokenizer(TEXT)["input_ids"]


def test_shards_are_no_larger_than_asked_but_for_one_tensor_alone(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path, max_shard_bytes=20_000)
    sizes = [path.stat().st_size for path in sorted(folder.glob("model-*.safetensors"))]
    assert len(sizes) > 2
    assert sorted(sizes)[-2] < 20_000 + 2_000  # a header
    assert max(sizes) > 300 * 32 * 4  # the embedding
    assert not (folder / "model.safetensors").exists()


def test_its_weights_go_by_the_seed_and_without_transformers_it_answers(tmp_path: Path) -> None:
    one, same, other = (
        Candidate.load(write_tiny_checkpoint(tmp_path / name, seed=seed), dtype=torch.float32)
        for name, seed in (("one", 0), ("same", 0), ("other", 1))
    )
    token_ids = random_token_ids(1, 9)
    check_same_bits(one.logits(token_ids), same.logits(token_ids))
    assert not torch.allclose(one.logits(token_ids), other.logits(token_ids), atol=0.1)
    assert len(one.greedy([1, 2, 3], 4).token_ids) == 4
