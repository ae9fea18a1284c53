"""A GGUF header costs no more memory and time than a true one, whatever it claims."""

import struct
import tracemalloc
from pathlib import Path

import pytest

from augur_weights.errors import GGUFError
from augur_weights.gguf_file import GGUFFile

STRING, ARRAY, UINT8, UINT32, FLOAT32_TENSOR = 8, 9, 0, 4, 0


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def number(key: str, value: int) -> bytes:
    return text(key) + struct.pack("<II", UINT32, value)


def array(key: str, element_type: int, count: int) -> bytes:
    return text(key) + struct.pack("<IIQ", ARRAY, element_type, count)


def tensor(name: str, offset: int, length: int = 8) -> bytes:
    return text(name) + struct.pack("<IQIQ", 1, length, FLOAT32_TENSOR, offset)


def write(path: Path, keys: list[bytes], tensors: list[bytes], size: int | None = None) -> Path:
    """A header, and behind it nothing but a hole up to `size`."""
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + 200 if size is None else size)
    return path


def refusal(path: Path) -> str:
    tracemalloc.start()
    with pytest.raises(GGUFError) as caught:
        GGUFFile(path).close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_two_tensors_side_by_side_are_read(tmp_path: Path) -> None:
    tensors = [tensor("a", 32), tensor("b", 0)]
    with GGUFFile(write(tmp_path / "model.gguf", [], tensors)) as gguf:
        assert {name: info.num_bytes for name, info in gguf.tensors.items()} == {"a": 32, "b": 32}


@pytest.mark.parametrize("element_type", [STRING, UINT8])
def test_an_array_of_more_elements_than_any_vocabulary_is_not_read(
    element_type: int, tmp_path: Path
) -> None:
    keys = [array("tokenizer.ggml.tokens", element_type, 10**9)]
    message = refusal(write(tmp_path / "model.gguf", keys, [], size=2**34))
    assert "'tokenizer.ggml.tokens' brings the metadata to 1000000000 elements" in message


def test_many_arrays_are_counted_together(tmp_path: Path) -> None:
    keys = [array(f"key{i}", UINT8, 900_000) + bytes(900_000) for i in range(3)]
    assert "'key2' brings the metadata to 2700000 elements" in refusal(
        write(tmp_path / "model.gguf", keys, [])
    )


def test_a_string_longer_than_any_header_is_not_read(tmp_path: Path) -> None:
    keys = [text("general.name") + struct.pack("<IQ", STRING, 2**33)]
    message = refusal(write(tmp_path / "model.gguf", keys, [], size=2**34))
    assert f"'general.name' the header has {2**33 + 24 + 12 + 20} bytes" in message


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_tensors_that_overlap_are_named(order: tuple[str, str], tmp_path: Path) -> None:
    places = {"a": tensor("a", 0, length=16), "b": tensor("b", 32)}
    path = write(tmp_path / "model.gguf", [], [places[name] for name in order])
    assert "tensors 'a' and 'b' overlap" in refusal(path)


def test_a_tensor_beside_its_alignment_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", [], [tensor("a", 4)])
    assert "tensor 'a' begins at 4, expected a multiple of 32" in refusal(path)


@pytest.mark.parametrize("alignment", [0, 3, 48])
def test_an_alignment_that_is_no_power_of_two_is_named(alignment: int, tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", [number("general.alignment", alignment)], [])
    assert f"general.alignment is {alignment}" in refusal(path)
