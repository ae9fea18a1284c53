"""Reading the header of a GGUF file, field by field, never past the end of the file."""

import os
import struct
from pathlib import Path
from typing import BinaryIO

from augur_weights.errors import GGUFError

MetadataValue = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# Value type ids of GGUF, as struct's format letters.
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip


class HeaderReader:
    """Reads numbers, strings and metadata from the start of a GGUF file.

    Attributes:
        path: the file, for messages.
        size: its length in bytes.
        position: bytes read so far.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self.path = path
        self.size = os.fstat(stream.fileno()).st_size
        self.position = 0

    def preamble(self) -> tuple[int, int]:
        """The number of tensors and of metadata keys, after magic and version were checked.

        Raises:
            GGUFError: not a GGUF file, or a version or byte order that is not supported.
        """
        magic = self._stream.read(len(_MAGIC))
        self.position = len(magic)
        if magic != _MAGIC:
            hint = "; it looks like a Git LFS pointer" if magic == b"vers" else ""
            raise GGUFError(
                f"{self.path}: not a GGUF file: it starts with {magic!r}, expected {_MAGIC!r}{hint}"
            )
        version = self.integer("I", "the version")
        if version not in _VERSIONS:
            # Version 3 written on a big-endian machine reads as 3 << 24.
            order = " (a big-endian file)" if version >> 24 in _VERSIONS else ""
            raise GGUFError(
                f"{self.path}: GGUF version {version}{order} is not supported, "
                "expected version 2 or 3, little-endian"
            )
        return self.integer("Q", "the number of tensors"), self.integer("Q", "the number of keys")

    def metadata(self, num_keys: int) -> dict[str, MetadataValue]:
        """All keys and values.

        Raises:
            GGUFError: the file ends within them, a key comes twice or a value's type is unknown.
        """
        values: dict[str, MetadataValue] = {}
        for _ in range(num_keys):
            key = self.text("a metadata key")
            if key in values:
                raise GGUFError(f"{self.path}: metadata key '{key}' is there twice")
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
            raise GGUFError(f"{self.path}: {what} is not UTF-8: {data[:40]!r}") from error

    def _value(self, key: str) -> MetadataValue:
        what = f"metadata key '{key}'"
        type_id = self.integer("I", what)
        if type_id == _STRING:
            return self.text(what)
        if type_id != _ARRAY:
            return self._scalars(type_id, 1, what)[0]
        element_id, count = self.integer("I", what), self.integer("Q", what)
        if element_id != _STRING:
            return self._scalars(element_id, count, what)
        # A string takes at least the eight bytes of its length.
        self._check_rest(count * 8, what)
        return [self.text(what) for _ in range(count)]

    def _scalars(self, type_id: int, count: int, what: str) -> list[int] | list[float]:
        letter = _SCALARS.get(type_id)
        if letter is None:
            raise GGUFError(f"{self.path}: {what} has value type {type_id}, which is not supported")
        data = self._take(count * struct.calcsize("<" + letter), what)
        return list(struct.unpack(f"<{count}{letter}", data))

    def _take(self, count: int, what: str) -> bytes:
        self._check_rest(count, what)
        data = self._stream.read(count)
        self.position += count
        return data

    def _check_rest(self, count: int, what: str) -> None:
        if count > self.size - self.position:
            raise GGUFError(
                f"{self.path}: the file is truncated: {what} needs {count} bytes from byte "
                f"{self.position} on, but the file has {self.size} bytes; fetch it again"
            )
