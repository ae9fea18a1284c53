"""Files that are not what they should be: one clear sentence each, never a crash."""

import json
import os
import struct
import tracemalloc
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
        file_of({"a": {**ONE, "more": 1}}, bytes(4)),
        file_of({"a": {**ONE, "shape": [True]}}, bytes(4)),
        file_of({"a": {**ONE, "shape": [1.0]}}, bytes(4)),
        file_of({"a": {**ONE, "data_offsets": [0, 4, 4]}}, bytes(4)),
        file_of({"a": {**ONE, "dtype": ["F32"]}}, bytes(4)),
        file_of({"__metadata__": [], "a": ONE}, bytes(4)),
        file_of({"__metadata__": {"format": 1}, "a": ONE}, bytes(4)),
        file_of({"a": ONE, "b": ONE}, bytes(4)),
        file_of({"a": ONE, "b": {**ONE, "data_offsets": [8, 12]}}, bytes(12)),
        struct.pack("<Q", 9) + b'{"\xff": 1}',
    ],
    ids=lambda data: repr(data[:20]),
)
def test_a_malformed_file_is_called_unreadable(folder: Path, data: bytes) -> None:
    path = damage(folder, data)
    refusal(folder, path, "ownload it again")


def test_overlapping_tensors_are_named_with_both_places(folder: Path) -> None:
    two = {**ONE, "data_offsets": [2, 6]}
    path = damage(folder, file_of({"first": ONE, "second": two}, bytes(6)))
    refusal(folder, path, "overlap or leave holes", '"second" begins at 2, where 4 is expected')


def test_a_tensor_that_the_header_names_twice_is_named(folder: Path) -> None:
    # The library itself takes the last of the two and says nothing.
    entry = json.dumps(ONE)
    text = f'{{"a": {entry}, "a": {entry}}}'.encode()
    path = damage(folder, struct.pack("<Q", len(text)) + text + bytes(4))
    refusal(folder, path, 'has the key "a" twice')


def test_a_header_of_absurd_length_is_not_read(folder: Path) -> None:
    path = folder / "model.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 2**33) + b"{")
        file.truncate(2**34)  # a hole: it takes no room on the disk
    tracemalloc.start()
    refusal(folder, str(path), f"{2**33} bytes, expected 2 to {2**23}")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_shape_and_its_bytes_that_disagree_are_named(folder: Path) -> None:
    path = damage(folder, file_of({"a": {**ONE, "shape": [3, 7]}}, bytes(4)))
    refusal(folder, path, '"a" is given 4 bytes, expected 84 for shape [3, 7] in F32')


def test_what_a_file_says_can_neither_break_the_line_nor_steer_the_terminal(folder: Path) -> None:
    name = "a\n\x1b[2J\u202e" + "x" * 100_000
    damage(folder, file_of({name: {**ONE, "dtype": "Q4\r"}}, bytes(4)))
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(folder)
    message = str(caught.value)
    assert message.isprintable()
    assert r'"a\n\x1b[2J\u202ex' in message
    assert len(message) < 2001


def test_the_end_of_a_long_message_stays() -> None:
    message = str(CheckpointError("x" * 9000 + " Fetch it again."))
    assert len(message) < 2001
    assert message.endswith("xx Fetch it again.")


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
        (b"[" * 100_000, "nested more than 64 deep"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "nested more than 64 deep"),
        (b'{"twice": 1, "once": 2, "twice": 1}', 'has the key "twice" twice'),
        (b'{"in": [{"deep": 1, "deep": 2}]}', 'has the key "deep" twice'),
        (b'{"rms_norm_eps": NaN}', "holds NaN, which is no JSON number"),
        (b'{"rope_theta": -Infinity}', "holds -Infinity"),
        (b'{"vocab_size": ' + b"9" * 5000 + b"}", "a number of thousands of digits"),
        (b'{"a": "' + b"x" * 2**23 + b'"}', "expected at most 8,388,608"),
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
    refusal(folder, "generation_config.json", "is a folder, expected a file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json"],
)
def test_a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refusal(folder, str(folder / name), "a pipe")


@pytest.mark.parametrize("name", ["generation_config.json", "model.safetensors.index.json"])
def test_a_link_that_leads_nowhere_is_not_passed_over(folder: Path, name: str) -> None:
    (folder / name).symlink_to("gone")
    refusal(folder, str(folder / name), "is a link that leads to no file (to gone)")
