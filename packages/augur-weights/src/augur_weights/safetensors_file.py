"""One safetensors file: what is in it, and in plain words what is wrong with it.

The header is read and checked by ``safetensors_header``; the tensors come through the safetensors
library's memory map.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from augur_weights.errors import CheckpointError
from augur_weights.layout import is_file
from augur_weights.safetensors_header import TensorEntry, checked_entries


@contextmanager
def open_safetensors(path: Path) -> Iterator[Any]:
    """Open a file through its memory map, as the library's (untyped) handle.

    Raises:
        CheckpointError: the file is missing, cut short, a Git LFS pointer or not safetensors.
    """
    if not is_file(path):
        raise CheckpointError(f"{path}: there is no such file. Fetch it into the folder.")
    try:
        handle: Any = safe_open(path, framework="pt", device="cpu")
    except SafetensorError as error:
        _check(path)  # says it in plain words, if it is what it usually is
        raise CheckpointError(
            f"{path}: is not a readable safetensors file ({_own_words(error)}). Download it again."
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from None
    with handle:
        yield handle


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Read the names, shapes and dtypes in a file; no tensor's bytes are touched.

    Raises:
        CheckpointError: as ``open_safetensors``; or the header names a tensor twice, gives a tensor
            a place that is not its alone, or a dtype that is not supported.
    """
    if not is_file(path):
        raise CheckpointError(f"{path}: there is no such file. Fetch it into the folder.")
    entries = _check(path)
    with open_safetensors(path):  # what the library refuses is to be known now, not midway
        return entries


def _check(path: Path) -> dict[str, TensorEntry]:
    try:
        with path.open("rb") as file:
            return checked_entries(file, path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}.") from None


def _own_words(error: SafetensorError) -> str:
    # The library starts each of its sentences with the same words; what follows is the reason.
    reason = str(error).removeprefix("Error while deserializing header: ")
    return reason if len(reason) <= 160 else reason[:160] + "..."
