"""Files that are not what they should be: one clear sentence each, never a crash."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from augur_weights import Checkpoint, CheckpointError

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 988097824\n"


@pytest.fixture
def folder(write_checkpoint: Callable[..., Path], tensors: dict[str, torch.Tensor]) -> Path:
    return write_checkpoint(tensors)


def refusal(folder: Path, *parts: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500 + len(str(folder))
    for part in parts:
        assert part in message


def damage(folder: Path, data: bytes) -> str:
    (folder / "model.safetensors").write_bytes(data)
    return str(folder / "model.safetensors")


def file_of(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_an_lfs_pointer_is_called_one(folder: Path) -> None:
    path = damage(folder, POINTER)
    refusal(folder, path, "Git LFS pointer", f"{len(POINTER)} bytes", "988097824", "git lfs pull")


@pytest.mark.parametrize("missing", [1, 40, 96])
def test_a_file_cut_short_says_how_much_is_there(folder: Path, missing: int) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    path = damage(folder, whole[:-missing])
    refusal(
        folder, path, "cut short", f"found {len(whole) - missing} bytes", f"least {len(whole)}."
    )


def test_a_file_cut_short_in_its_header_says_so(folder: Path) -> None:
    path = damage(folder, (folder / "model.safetensors").read_bytes()[:50])
    refusal(folder, path, "cut short", "found 50 bytes", "download it again")


def test_a_file_with_something_behind_its_end_says_so(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    path = damage(folder, whole + b"more")
    refusal(folder, path, f"found {len(whole) + 4} bytes", f"says {len(whole)}.")


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        struct.pack("<Q", 0),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2**40) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{x",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        struct.pack("<Q", 100_005) + b'{"a":' + b"[" * 100_000,
        b"<!DOCTYPE html><html>" + b" " * 200,
        file_of({"a": ONE, "b": {**ONE, "data_offsets": [2, 6]}}, bytes(6)),
        file_of({"a": {**ONE, "data_offsets": [0, 8]}}, bytes(8)),
        file_of({"a": {**ONE, "data_offsets": [4, 0]}}, bytes(4)),
        file_of({"a": {**ONE, "shape": [2**62, 2**62]}}, bytes(4)),
        file_of({"a": {**ONE, "shape": [-1]}}, bytes(4)),
        file_of({"a": {**ONE, "dtype": "Q4"}}, bytes(4)),
        file_of({"a": [1, 2, 3]}, bytes(4)),
        file_of({"a": {"dtype": "F32"}}, bytes(4)),
    ],
    ids=lambda data: repr(data[:20]),
)
def test_a_malformed_file_is_called_unreadable(folder: Path, data: bytes) -> None:
    path = damage(folder, data)
    refusal(folder, path, "ownload it again")


def test_a_dtype_that_torch_cannot_hold_is_named(folder: Path) -> None:
    path = damage(folder, file_of({"a": {**ONE, "dtype": "F8_E8M0", "shape": [4]}}, bytes(4)))
    refusal(folder, path, '"a"', "F8_E8M0", "bfloat16")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"{'single': 1}", "not JSON"),
        (b"[1, 2]", "JSON list"),
        (b'"text"', "JSON str"),
        (b"null", "JSON NoneType"),
        (b"\xff\xfe{", "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (POINTER, "Git LFS pointer"),
    ],
    ids=lambda value: repr(value[:20]),
)
@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "model.safetensors.index.json"]
)
def test_a_json_file_that_is_no_object_is_named(
    folder: Path, name: str, data: bytes, reason: str
) -> None:
    (folder / name).write_bytes(data)
    refusal(folder, str(folder / name), reason)


def test_a_folder_in_the_place_of_a_file_is_named(folder: Path) -> None:
    (folder / "generation_config.json").mkdir()
    refusal(folder, "generation_config.json", "cannot be read")
