"""Spoiled checkpoint files: refused with one message of ours, or read, in bounded time and memory.

`AUGUR_FUZZ_EXAMPLES` sets how many examples each reader gets (100 if not set).
"""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from augur.generation_config import settings_of
from augur.loading import eos_token_ids, read_config
from augur_model import QwenForCausalLM
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_weights import Checkpoint, check_fit
from reader_bounds import Tally, check_bounded, fuzzing
from spoiled_files import spoiled_bytes, spoiled_json, spoiled_text

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    "empty": {"dtype": "I64", "shape": [0, 7], "data_offsets": [32, 32]},
}
DATA = bytes(32)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def file_of(header: Any) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + DATA


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "checkpoint"
    return write_tiny_checkpoint(folder)


def read_all(folder: Path) -> None:
    checkpoint = Checkpoint(folder)
    for name in checkpoint.names:
        tensor = checkpoint.tensor(name)
        assert tuple(tensor.shape) == checkpoint.shape(name)
        assert tensor.dtype == checkpoint.dtype(name)
        tensor.clone()


def test_safetensors_file(tmp_path: Path, tally: Tally) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    whole = file_of(HEADER)

    @fuzzing
    @given(
        st.one_of(
            spoiled_bytes(whole, head=len(whole) - len(DATA)),
            spoiled_json(HEADER).map(file_of),
            st.binary(max_size=200),
        )
    )
    def check(data: bytes) -> None:
        (tmp_path / WEIGHTS).write_bytes(data)
        check_bounded(lambda: read_all(tmp_path), tally)

    check()


def test_index(tmp_path: Path, tally: Tally) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    shards = {}
    for number, name in enumerate(("a", "b"), start=1):
        shards[name] = f"model-{number:05d}-of-00002.safetensors"
        header = {name: {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}
        (tmp_path / shards[name]).write_bytes(file_of(header))
    index = {"metadata": {"total_size": 64}, "weight_map": shards}

    @fuzzing
    @given(spoiled_text(index))
    def check(data: bytes) -> None:
        (tmp_path / INDEX).write_bytes(data)
        if check_bounded(lambda: read_all(tmp_path), tally):
            assert json.loads(data)["weight_map"].items() <= shards.items()

    check()


@pytest.mark.parametrize(
    "changes",
    [{}, {"rope_scaling": YARN}, {"use_sliding_window": True, "max_window_layers": 1}],
    ids=["plain", "yarn", "windows"],
)
def test_config(changes: dict[str, Any], folder: Path, tmp_path: Path, tally: Tally) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= changes | ({"sliding_window": 16} if "use_sliding_window" in changes else {})
    (tmp_path / WEIGHTS).symlink_to(folder / WEIGHTS)

    def read() -> None:
        checkpoint = Checkpoint(tmp_path)
        config = read_config(checkpoint)
        with torch.device("meta"):
            model = QwenForCausalLM(config)
        check_fit(model, checkpoint)
        assert torch.isfinite(model.model.rotary_emb.inverse_frequencies).all()

    @fuzzing
    @given(spoiled_text(config))
    def check(data: bytes) -> None:
        (tmp_path / "config.json").write_bytes(data)
        check_bounded(read, tally)

    check()


def test_generation_config(folder: Path, tmp_path: Path, tally: Tally) -> None:
    for name in ("config.json", WEIGHTS):
        (tmp_path / name).symlink_to(folder / name)
    settings = {
        "bos_token_id": 1,
        "do_sample": True,
        "eos_token_id": [2, 1],
        "max_new_tokens": 10,
        "repetition_penalty": 1.1,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "stop_strings": ["a", "b"],
        "transformers_version": "4.37.0",
    }

    def read() -> None:
        checkpoint = Checkpoint(tmp_path)
        ids = eos_token_ids(checkpoint)
        assert all(0 <= token_id < 303 for token_id in ids)
        settings_of(checkpoint)

    @fuzzing
    @given(spoiled_text(settings))
    def check(data: bytes) -> None:
        (tmp_path / "generation_config.json").write_bytes(data)
        check_bounded(read, tally)

    check()
