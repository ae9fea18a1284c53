"""Reading the header of a GGUF file, field by field, never past the end of the file."""

import os
import struct
from collections.abc import Callable
from typing import BinaryIO

from augur_files import lfs_pointer
from augur_weights.errors import GGUFError

MetadataValue = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# Value type ids of GGUF, as struct's format letters.
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip

# Far beyond any Qwen2 model's: a header is a few MB, with some 500,000 strings in its vocabulary
# and 1,000 tensors. What is parsed takes many times its bytes in the file, so it is bounded here.
_MAX_HEADER_BYTES = 32 * 2**20
_MAX_ELEMENTS = 2 * 10**6
_MAX_ENTRIES = 2**16


class HeaderReader:
    """Reads numbers, strings and metadata from the start of a GGUF file.

    Each method raises a GGUFError where the file ends too early or says what cannot be.

    Attributes:
        error: makes what is raised where the file is at fault.
        size: the file's length in bytes.
        position: bytes read so far.
    """

    def __init__(self, stream: BinaryIO, error: Callable[[str], GGUFError]) -> None:
        self._stream = stream
        self.error = error
        self.size = os.fstat(stream.fileno()).st_size
        self.position = 0
        self._num_elements = 0

    def preamble(self) -> tuple[int, int]:
        """The number of tensors and of metadata keys, after magic and version were checked."""
        magic = self._stream.read(len(_MAGIC))
        self.position = len(magic)
        if magic != _MAGIC:
            pointer = lfs_pointer(magic + self._stream.read(1024), self.size)
            fault = f"not a GGUF file: it starts with {magic!r}, expected {_MAGIC!r}"
            raise self.error(pointer or fault)
        version = self.integer("I", "the version")
        if version not in _VERSIONS:
            # Version 3 written on a big-endian machine reads as 3 << 24.
            order = " (a big-endian file)" if version >> 24 in _VERSIONS else ""
            raise self.error(
                f"GGUF version {version}{order} is not supported, "
                "expected version 2 or 3, little-endian"
            )
        counts = self.integer("Q", "the number of tensors"), self.integer("Q", "the number of keys")
        if max(counts) > _MAX_ENTRIES:
            raise self.error(
                f"the header counts {counts[0]} tensors and {counts[1]} metadata keys, expected at "
                f"most {_MAX_ENTRIES} of each; the file is damaged, fetch it again"
            )
        return counts

    def metadata(self, num_keys: int) -> dict[str, MetadataValue]:
        """All keys and values; none may come twice."""
        values: dict[str, MetadataValue] = {}
        for _ in range(num_keys):
            key = self.text("a metadata key")
            if key in values:
                raise self.error(f"metadata key '{key}' is there twice")
            values[key] = self._value(key)
        return values

    def integer(self, letter: str, what: str) -> int:
        """One unsigned number, ``letter`` being struct's for its width."""
        (number,) = struct.unpack("<" + letter, self._take(struct.calcsize("<" + letter), what))
        return int(number)

    def text(self, what: str) -> str:
        """One string: a length of eight bytes, then UTF-8."""
        data = self._take(self.integer("Q", what), what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"{what} is not UTF-8: {data[:40]!r}") from error

    def _value(self, key: str) -> MetadataValue:
        what = f"metadata key '{key}'"
        type_id = self.integer("I", what)
        if type_id == _STRING:
            return self.text(what)
        if type_id != _ARRAY:
            return self._scalars(type_id, 1, what)[0]
        element_id, count = self.integer("I", what), self.integer("Q", what)
        self._check_count(count, what)
        if element_id != _STRING:
            return self._scalars(element_id, count, what)
        # A string takes at least the eight bytes of its length.
        self._check_rest(count * 8, what)
        return [self.text(what) for _ in range(count)]

    def _scalars(self, type_id: int, count: int, what: str) -> list[int] | list[float]:
        letter = _SCALARS.get(type_id)
        if letter is None:
            raise self.error(f"{what} has value type {type_id}, which is not supported")
        data = self._take(count * struct.calcsize("<" + letter), what)
        return list(struct.unpack(f"<{count}{letter}", data))

    def _check_count(self, count: int, what: str) -> None:
        # The rest of the file first: of a file that was cut short nothing else is to be said.
        self._check_rest(count, what)
        self._num_elements += count
        if self._num_elements > _MAX_ELEMENTS:
            raise self.error(
                f"{what} brings the metadata to {self._num_elements} elements, "
                f"expected at most {_MAX_ELEMENTS}; the file is damaged, fetch it again"
            )

    def _take(self, count: int, what: str) -> bytes:
        self._check_rest(count, what)
        if self.position + count > _MAX_HEADER_BYTES:
            raise self.error(
                f"with {what} the header has {self.position + count} bytes, expected "
                f"at most {_MAX_HEADER_BYTES}; the file is damaged, fetch it again"
            )
        data = self._stream.read(count)
        if len(data) < count:
            raise self.error("became shorter while it was read; fetch it again")
        self.position += count
        return data

    def _check_rest(self, count: int, what: str) -> None:
        if count > self.size - self.position:
            raise self.error(
                f"the file is truncated: {what} needs {count} bytes from byte "
                f"{self.position} on, but the file has {self.size} bytes; fetch it again"
            )
