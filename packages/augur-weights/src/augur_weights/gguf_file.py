"""A GGUF file: its metadata, its list of tensors and their stored bytes.

The layout is the one of ggml's ``docs/gguf.md``, versions 2 and 3, little-endian. The header is
read here rather than by the ``gguf`` library's reader, which needs many seconds for Qwen's 300,000
vocabulary strings, and does not say that a file was cut short.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self, TypeVar

from augur_files import FileReader, file_state
from augur_weights.errors import GGUFError
from augur_weights.gguf_header import HeaderReader, MetadataValue
from augur_weights.gguf_types import SUPPORTED_TYPES, TensorType

_DEFAULT_ALIGNMENT = 32
_MAX_DIMENSIONS = 4

T = TypeVar("T")

READER = FileReader(GGUFError, max_bytes=0)  # no text is read of them


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies in the file, in bytes from its start, and how it is stored.

    The shape is as PyTorch counts, rows first; GGUF itself lists the innermost dimension first.
    """

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    num_bytes: int


class GGUFFile:
    """An open GGUF file; the header is read at once, tensors when they are asked for.

    Attributes:
        path: the file.
        state: what tells whether the file is still the same (``augur_files.file_state``).
        metadata: all keys and values.
        tensors: by name, in the file's order.

    Raises:
        GGUFError: the file is not there, is no GGUF file, has another version, is cut short or
            holds a tensor type that is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = READER.open(path)
        try:
            self.state = file_state(self._stream.fileno())
            header = HeaderReader(self._stream, self.error)
            num_tensors, num_keys = header.preamble()
            self.metadata: dict[str, MetadataValue] = header.metadata(num_keys)
            entries = [_read_entry(header) for _ in range(num_tensors)]
            self.tensors = self._place(entries, header)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise self.error(f"cannot be read: {error.strerror}") from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def error(self, fault: str) -> GGUFError:
        """What to raise where this file is at fault."""
        return GGUFError(f"{self.path}: {fault}")

    def close(self) -> None:
        """Close the file; the header stays readable, the tensors do not."""
        self._stream.close()

    def check_unchanged(self) -> None:
        """Check that nothing was written to the file since it was opened; else a GGUFError."""
        if file_state(self._stream.fileno()) != self.state:
            raise self.error("was written to while it was read. Import it again.")

    def get(self, key: str, kind: type[T], default: T) -> T:
        """The value of a metadata key, or ``default`` where the file lacks it."""
        return self.require(key, kind) if key in self.metadata else default

    def require(self, key: str, kind: type[T]) -> T:
        """The value of a metadata key that must be there and be of this type; else a GGUFError."""
        if key not in self.metadata:
            raise self.error(f"metadata key '{key}' is missing")
        value = self.metadata[key]
        # Not isinstance: True is an int to Python, but a flag is no number of layers.
        if type(value) is not kind:
            raise self.error(
                f"metadata key '{key}' holds a {type(value).__name__}, expected a {kind.__name__}"
            )
        return value

    def read(self, tensor: TensorInfo, start: int, count: int) -> bytearray:
        """``count`` stored bytes of a tensor, from byte ``start`` of it on.

        Raises:
            GGUFError: the file cannot be read or has become shorter.
        """
        data = bytearray(count)
        try:
            self._stream.seek(tensor.offset + start)
            found = self._stream.readinto(data)
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror}") from error
        if found != count:
            raise self.error(
                f"tensor '{tensor.name}' ends early: found {found} of {count} bytes; "
                "the file was changed while it was read"
            )
        return data

    def _place(
        self, entries: list[tuple[str, tuple[int, ...], TensorType, int]], header: HeaderReader
    ) -> dict[str, TensorInfo]:
        alignment = self.get("general.alignment", int, _DEFAULT_ALIGNMENT)
        if alignment < 1 or alignment & (alignment - 1):
            raise self.error(f"general.alignment is {alignment}, expected a power of two")
        data_start = -(-header.position // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for name, shape, tensor_type, offset in entries:
            if name in tensors:
                raise self.error(f"tensor '{name}' is listed twice")
            num_bytes = math.prod(shape) // tensor_type.block_elements * tensor_type.block_bytes
            if offset % alignment:
                raise self.error(
                    f"tensor '{name}' begins at {offset}, expected a multiple of {alignment}"
                )
            end = data_start + offset + num_bytes
            if end > header.size:
                raise self.error(
                    f"the file is truncated: tensor '{name}' ends at byte {end}, "
                    f"but the file has {header.size} bytes; fetch it again"
                )
            tensors[name] = TensorInfo(name, shape, tensor_type, data_start + offset, num_bytes)
        in_order = sorted(tensors.values(), key=lambda tensor: (tensor.offset, tensor.num_bytes))
        for before, after in pairwise(in_order):
            if before.offset + before.num_bytes > after.offset:
                which = f"'{before.name}' and '{after.name}'"
                raise self.error(f"tensors {which} overlap; the file is damaged, fetch it again")
        return tensors


def _read_entry(header: HeaderReader) -> tuple[str, tuple[int, ...], TensorType, int]:
    name = header.text("a tensor's name")
    num_dimensions = header.integer("I", f"the dimensions of tensor '{name}'")
    if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
        raise header.error(f"tensor '{name}' has {num_dimensions} dimensions, expected 1 to 4")
    dimensions = [
        header.integer("Q", f"the shape of tensor '{name}'") for _ in range(num_dimensions)
    ]
    type_id = header.integer("I", f"the type of tensor '{name}'")
    offset = header.integer("Q", f"the offset of tensor '{name}'")
    tensor_type = SUPPORTED_TYPES.get(type_id)
    if tensor_type is None:
        supported = ", ".join(known.name for known in SUPPORTED_TYPES.values())
        raise header.error(
            f"tensor '{name}' has type {_type_name(type_id)}, which is not "
            f"supported; supported are {supported}"
        )
    if dimensions[0] % tensor_type.block_elements:
        raise header.error(
            f"tensor '{name}' has rows of {dimensions[0]} elements, expected a "
            f"multiple of {tensor_type.name}'s block of {tensor_type.block_elements}"
        )
    return name, tuple(reversed(dimensions)), tensor_type, offset


def _type_name(type_id: int) -> str:
    try:
        from gguf import GGMLQuantizationType  # noqa: PLC0415  (optional, and slow to import)

        return str(GGMLQuantizationType(type_id).name)
    except (ImportError, ValueError):
        return f"number {type_id}"
