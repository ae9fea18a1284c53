"""One safetensors file: what is in it, and in plain words what is wrong with it.

The format: eight bytes with the header's length, a JSON header that gives each tensor its dtype,
shape and place, then the tensors' bytes up to the end of the file
(https://huggingface.co/docs/safetensors).
"""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from augur_weights.errors import CheckpointError
from augur_weights.layout import lfs_pointer_bytes

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

# The safetensors library refuses longer headers; a length beyond it is no header's.
_MAX_HEADER_BYTES = 100_000_000


@dataclass(frozen=True)
class TensorEntry:
    """A tensor's line in a file's header: where it is, its shape and its dtype."""

    file: Path
    shape: tuple[int, ...]
    dtype: torch.dtype


@contextmanager
def open_safetensors(path: Path) -> Iterator[Any]:
    """Open a file through its memory map, as the library's (untyped) handle.

    Raises:
        CheckpointError: the file is missing, cut short, a Git LFS pointer or not safetensors.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file. Fetch it into the folder.")
    try:
        handle: Any = safe_open(path, framework="pt", device="cpu")
    except SafetensorError as error:
        raise CheckpointError(f"{path}: {_what_is_wrong(path, error)}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from None
    with handle:
        yield handle


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Read the names, shapes and dtypes in a file; no tensor's bytes are touched.

    Raises:
        CheckpointError: as ``open_safetensors``, or a tensor's dtype is not supported.
    """
    entries = {}
    with open_safetensors(path) as handle:
        for name in handle.keys():  # noqa: SIM118 - a handle is no mapping
            entry = handle.get_slice(name)
            dtype = _DTYPES.get(entry.get_dtype())
            if dtype is None:
                raise CheckpointError(
                    f'{path}: tensor "{name}" has dtype {entry.get_dtype()}, expected one of '
                    f"{', '.join(_DTYPES)}. Use a checkpoint in bfloat16, float16 or float32."
                )
            entries[name] = TensorEntry(path, tuple(entry.get_shape()), dtype)
    return entries


def _what_is_wrong(path: Path, error: SafetensorError) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(1024)
        pointer_bytes = lfs_pointer_bytes(head)
        if pointer_bytes is not None:
            expected = f"{pointer_bytes} bytes" if pointer_bytes >= 0 else "the weights"
            return (
                f"is a Git LFS pointer of {size} bytes that stands for the file itself "
                f"({expected}). Fetch it with `git lfs pull`, or download it again."
            )
        needed = _needed_bytes(path, head, size)
    if needed is not None and needed > size:
        return (
            f"is cut short: found {size} bytes, its header says at least {needed}. "
            "Delete it and download it again."
        )
    if needed is not None and needed < size:
        return (
            f"has bytes behind its end: found {size} bytes, its header says {needed}. "
            "Delete it and download it again."
        )
    return f"is not a readable safetensors file ({_own_words(error)}). Download it again."


def _needed_bytes(path: Path, head: bytes, size: int) -> int | None:
    """The size that what there is of the header asks for; ``None`` where it does not tell."""
    if len(head) < 8:
        return None
    (header_bytes,) = struct.unpack("<Q", head[:8])
    if not 2 <= header_bytes <= _MAX_HEADER_BYTES or head[8:9] not in (b"{", b""):
        return None
    if 8 + header_bytes > size:
        return int(8 + header_bytes)
    try:
        with path.open("rb") as file:
            file.seek(8)
            header: dict[str, Any] = json.loads(file.read(header_bytes))
        ends = [e["data_offsets"][1] for name, e in header.items() if name != "__metadata__"]
        return int(8 + header_bytes + max(ends, default=0))
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError):
        return None


def _own_words(error: SafetensorError) -> str:
    # The library starts each of its sentences with the same words; what follows is the reason.
    reason = str(error).removeprefix("Error while deserializing header: ")
    return reason if len(reason) <= 160 else reason[:160] + "..."
