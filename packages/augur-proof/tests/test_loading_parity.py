"""Checkpoints that transformers writes: augur loads them and computes what transformers does."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from augur_proof import (
    DTYPES,
    KINDS,
    Candidate,
    Referee,
    check_same_bits,
    random_token_ids,
    tiny_config,
)
from augur_weights import CheckpointError

pytest.importorskip("transformers")

WEIGHTS = "model.safetensors"
CONFIG = "config.json"


def _save(folder: Path, max_shard_size: str = "1GB", **changes: Any) -> Path:
    Referee.random(tiny_config(**changes)).model.save_pretrained(
        folder, max_shard_size=max_shard_size
    )
    return folder


def _rewrite_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def _check_loads_as_transformers_does(folder: Path, dtype: torch.dtype = torch.float32) -> None:
    token_ids, sizes = random_token_ids(2, 9), (5, 1, 2, 1)
    check_same_bits(
        Candidate.load(folder, dtype=dtype).logits(token_ids, sizes),
        Referee.load(folder, dtype=dtype).logits(token_ids, sizes),
    )


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_a_checkpoint_from_transformers_computes_the_same(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    _check_loads_as_transformers_does(_save(tmp_path, **KINDS[name]), dtype)


def test_a_tied_checkpoint_without_a_head_loads(tmp_path: Path) -> None:
    _save(tmp_path, tie_word_embeddings=True)
    assert "lm_head.weight" not in load_file(tmp_path / WEIGHTS)
    _check_loads_as_transformers_does(tmp_path)


def test_a_tied_checkpoint_with_an_identical_head_loads(tmp_path: Path) -> None:
    tensors = load_file(_save(tmp_path, tie_word_embeddings=True) / WEIGHTS)
    without_head = Candidate.load(tmp_path, dtype=torch.float32).logits(random_token_ids(2, 9))
    head = tensors["model.embed_tokens.weight"].clone()
    _rewrite_tensors(tmp_path, {**tensors, "lm_head.weight": head})
    _check_loads_as_transformers_does(tmp_path)
    with_head = Candidate.load(tmp_path, dtype=torch.float32).logits(random_token_ids(2, 9))
    check_same_bits(with_head, without_head)


def test_a_sharded_checkpoint_loads(tmp_path: Path) -> None:
    _save(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert not (tmp_path / WEIGHTS).exists()
    _check_loads_as_transformers_does(tmp_path)


def test_large_biases_take_part(tmp_path: Path) -> None:
    tensors = load_file(_save(tmp_path) / WEIGHTS)
    biases = {name: 3 * value for name, value in tensors.items() if name.endswith("bias")}
    assert len(biases) == 2 * 3
    plain = Candidate.load(tmp_path, dtype=torch.float32).logits(random_token_ids(2, 9))
    _rewrite_tensors(tmp_path, {**tensors, **biases})
    _check_loads_as_transformers_does(tmp_path)
    biased = Candidate.load(tmp_path, dtype=torch.float32).logits(random_token_ids(2, 9))
    assert not torch.allclose(biased, plain, atol=0.1)


def test_a_missing_bias_is_an_error_that_names_it(tmp_path: Path) -> None:
    tensors = load_file(_save(tmp_path) / WEIGHTS)
    del tensors["model.layers.1.self_attn.k_proj.bias"]
    _rewrite_tensors(tmp_path, tensors)
    with pytest.raises(CheckpointError, match=re.escape("model.layers.1.self_attn.k_proj.bias")):
        Candidate.load(tmp_path, dtype=torch.float32)


def test_a_shape_that_config_and_weights_disagree_on_is_an_error_that_says_all(
    tmp_path: Path,
) -> None:
    config = json.loads((_save(tmp_path) / CONFIG).read_text(encoding="utf-8"))
    config["intermediate_size"] = 40
    (tmp_path / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError) as caught:
        Candidate.load(tmp_path, dtype=torch.float32)
    message = str(caught.value)
    assert re.search(r"model\.layers\.0\.mlp\.(gate|up|down)_proj\.weight", message)
    assert str(tmp_path / WEIGHTS) in message
    found, expected = ("[32, 48]", "[32, 40]") if "down" in message else ("[48, 32]", "[40, 32]")
    assert message.index(found) < message.index(expected)


def test_rotary_frequencies_are_their_closed_form_after_loading_over_dirty_memory(
    tmp_path: Path,
) -> None:
    _save(tmp_path, head_dim=16)
    # Freed blocks of every small size, full of NaN, for a buffer left empty to be made of.
    dirt = [torch.full((size,), torch.nan) for size in range(1, 2000)]
    del dirt
    candidate = Candidate.load(tmp_path, dtype=torch.bfloat16)
    found = candidate.model.model.rotary_emb.inverse_frequencies
    closed_form = [math.pow(1_000_000.0, -2 * index / 16) for index in range(8)]
    torch.testing.assert_close(found, torch.tensor(closed_form), rtol=3e-7, atol=0)
    referee = Referee.load(tmp_path, dtype=torch.bfloat16)
    check_same_bits(found, referee.model.model.rotary_emb.inv_freq)
    for parameter in candidate.model.parameters():
        assert torch.isfinite(parameter).all()
