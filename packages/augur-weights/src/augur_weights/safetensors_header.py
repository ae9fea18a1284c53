"""The header of a safetensors file, checked to the last byte.

The format: eight bytes with the header's length, a JSON header that gives each tensor its dtype,
shape and place, then the tensors' bytes, without holes, up to the end of the file
(https://huggingface.co/docs/safetensors). It is read here and not by the safetensors library,
which takes the last of two entries of one name in silence, and whose refusals do not tell a file
that was cut short from one that is something else.
"""

import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from augur_files import StrictJSONError, lfs_pointer, parse_json
from augur_weights.errors import CheckpointError

_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip

# A dense Qwen model's longest header is under 100 kB. JSON takes up to twenty times its size once
# it is parsed, so what is read is bounded here.
_MAX_HEADER_BYTES = 8 * 2**20

_LENGTH_BYTES = 8
_METADATA = "__metadata__"


@dataclass(frozen=True)
class TensorEntry:
    """A tensor's line in a file's header; ``start`` is its first byte, counted from the file's."""

    file: Path
    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int

    @property
    def num_bytes(self) -> int:
        """Its size in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


def checked_entries(file: BinaryIO, path: Path) -> dict[str, TensorEntry]:
    """Read the header of an open file, and check it against the size; else a CheckpointError."""
    size = os.fstat(file.fileno()).st_size
    header, data_start = _read(file, path, size)
    entries: dict[str, TensorEntry] = {}
    places: list[tuple[int, int, str]] = []
    for name, fields in header.items():
        if name == _METADATA:
            continue
        entries[name] = _entry(path, name, fields, data_start)
        places.append((*fields["data_offsets"], name))
    _check_places(path, sorted(places), data_start, size)
    return entries


def _read(file: BinaryIO, path: Path, size: int) -> tuple[dict[str, Any], int]:
    """The parsed header, and the first byte behind it."""
    head = file.read(1024)
    if pointer := lfs_pointer(head, size):
        raise CheckpointError(f"{path}: {pointer}")
    if len(head) < _LENGTH_BYTES:
        raise _unreadable(path, f"it has {size} bytes, fewer than any such file")
    (header_bytes,) = struct.unpack("<Q", head[:_LENGTH_BYTES])
    if head[_LENGTH_BYTES : _LENGTH_BYTES + 1] not in (b"{", b""):
        raise _unreadable(path, "no header begins behind its first eight bytes")
    if not 2 <= header_bytes <= _MAX_HEADER_BYTES:
        reason = f"its header would have {header_bytes} bytes, expected 2 to {_MAX_HEADER_BYTES}"
        raise _unreadable(path, reason)
    data_start = _LENGTH_BYTES + header_bytes
    if data_start > size:
        raise _cut_short(path, size, data_start)
    file.seek(_LENGTH_BYTES)
    try:
        header = parse_json(file.read(header_bytes).decode("utf-8"))
    except UnicodeDecodeError:
        raise _unreadable(path, "its header is not UTF-8 text") from None
    except StrictJSONError as error:
        raise _unreadable(path, f"its header {error}") from None
    metadata = header.get(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _unreadable(path, f'its header\'s "{_METADATA}" is no object of strings')
    return header, data_start


def _entry(path: Path, name: str, fields: Any, data_start: int) -> TensorEntry:
    keys = ("dtype", "shape", "data_offsets")
    quoted = f'"{name:.200}"'
    if not isinstance(fields, dict) or set(fields) != set(keys):
        raise _unreadable(path, f"its entry of {quoted} does not hold {', '.join(keys)}")
    dtype_name, shape, offsets = (fields[key] for key in keys)
    if not (_are_counts(shape) and _are_counts(offsets) and len(offsets) == 2):
        raise _unreadable(path, f"shape or place of {quoted} are not whole numbers, 0 or above")
    dtype = _DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
    if dtype is None:
        raise CheckpointError(
            f"{path}: tensor {quoted} has dtype {dtype_name!r:.40}, expected one of "
            f"{', '.join(_DTYPES)}. Download it again, or use one in bfloat16, float16 or float32."
        )
    start, end = offsets
    entry = TensorEntry(path, tuple(shape), dtype, data_start + start)
    if end - start != entry.num_bytes:
        expected = f"{entry.num_bytes} for shape {shape!r:.80} in {dtype_name}"
        reason = f"tensor {quoted} is given {end - start} bytes, expected {expected}"
        raise _unreadable(path, reason)
    return entry


def _are_counts(values: object) -> bool:
    # Not isinstance: True is an int to Python, but no size.
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_places(
    path: Path, places: list[tuple[int, int, str]], data_start: int, size: int
) -> None:
    """Check that the tensors follow each other without holes, up to the end of the file."""
    expected = 0
    for start, end, name in places:
        if start != expected:
            reason = f'tensor "{name:.200}" begins at {start}, where {expected} is expected'
            raise _unreadable(path, f"its tensors overlap or leave holes: {reason}")
        expected = end
    if data_start + expected > size:
        raise _cut_short(path, size, data_start + expected)
    if data_start + expected < size:
        raise CheckpointError(
            f"{path}: has bytes behind its end: found {size} bytes, its header says "
            f"{data_start + expected}. Delete it and download it again."
        )


def _cut_short(path: Path, size: int, needed: int) -> CheckpointError:
    return CheckpointError(
        f"{path}: is cut short: found {size} bytes, its header says at least {needed}. "
        "Delete it and download it again."
    )


def _unreadable(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: is not a readable safetensors file ({reason}). Download it again."
    )
