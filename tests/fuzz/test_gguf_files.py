"""Spoiled GGUF files: refused with one message of ours, or imported, in bounded time and memory.

`AUGUR_FUZZ_EXAMPLES` sets how many examples there are of each kind (100 if not set).
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import package_modules
from augur_weights import Checkpoint
from augur_weights.gguf_import import write_checkpoint
from reader_bounds import Tally, check_bounded, fuzzing
from spoiled_files import spoiled_bytes

tiny = package_modules.load("gguf_tiny")
tiny.HIDDEN, tiny.LAYERS, tiny.INNER = 32, 1, 32


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A file of 60 kB, and where its list of tensors ends."""
    path = tiny.tiny_model("Q8_0").write(tmp_path_factory.mktemp("gguf") / "model.gguf")
    data = path.read_bytes()
    return data, data.rindex(b"output_norm.weight") + 18 + 4 + 8 + 4 + 8


@pytest.fixture
def check(tmp_path: Path, tally: Tally) -> Callable[[bytes], None]:
    path, folder = tmp_path / "model.gguf", tmp_path / "checkpoint"

    def read() -> None:
        write_checkpoint(path, folder)
        assert len(Checkpoint(folder).names) >= 14

    def check(data: bytes) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path.write_bytes(data)
        check_bounded(read, tally)

    return check


def test_gguf_file(whole: tuple[bytes, int], check: Callable[[bytes], None]) -> None:
    data, header_end = whole

    @fuzzing
    @given(st.one_of(spoiled_bytes(data, head=header_end), st.binary(max_size=200)))
    def check_each(data: bytes) -> None:
        check(data)

    check_each()


def test_gguf_tensor_list(whole: tuple[bytes, int], check: Callable[[bytes], None]) -> None:
    data, header_end = whole
    start = data.index(b"token_embd.weight") - 8

    @fuzzing
    @given(spoiled_bytes(data[start:header_end]))
    def check_each(tensor_list: bytes) -> None:
        check(data[:start] + tensor_list + data[header_end:])

    check_each()


def test_gguf_metadata(whole: tuple[bytes, int], check: Callable[[bytes], None]) -> None:
    # All but the vocabulary, which is most of the file and whose every string is alike.
    data, _ = whole
    end = data.index(b"tokenizer.ggml.tokens") + 80

    @fuzzing
    @given(spoiled_bytes(data[:end]))
    def check_each(metadata: bytes) -> None:
        check(metadata + data[end:])

    check_each()


def test_gguf_values(check: Callable[[bytes], None], tmp_path: Path) -> None:
    # A file that is sound in itself, whose metadata say something strange.
    numbers = st.sampled_from([0, 1, 2, 3, 31, 64, 2**31, 2**32 - 1]).map(np.uint32)
    fractions = st.sampled_from([0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf")])
    texts = st.sampled_from(["", "llama", "gpt2", "qwen2", "\x1b[2J\n", "x" * 5000, "{{"])
    lists = st.sampled_from([["a"], ["a", "a"], ["a b", "b"], [1, 2], [3] * 288, [""] * 288])
    values = st.one_of(numbers, fractions.map(np.float32), texts, lists, st.booleans())
    keys = sorted(tiny.default_metadata())

    @fuzzing
    @given(st.dictionaries(st.sampled_from(keys), values, min_size=1, max_size=2))
    def check_each(changes: dict[str, Any]) -> None:
        model = tiny.tiny_model("Q8_0")
        model.metadata |= changes
        check(model.write(tmp_path / "changed.gguf").read_bytes())

    check_each()
