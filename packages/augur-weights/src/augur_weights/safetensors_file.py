"""One safetensors file: what is in it, and its tensors' bytes, piece by piece."""

from collections.abc import Iterator
from pathlib import Path

import torch

from augur_files import file_state
from augur_weights.errors import CheckpointError
from augur_weights.layout import READER
from augur_weights.safetensors_header import checked_entries

# Small beside any model, and long enough for the calls around it not to count.
_PIECE_BYTES = 8 * 2**20


class SafetensorsFile:
    """A file whose header was checked; a tensor is read when it is asked for.

    The file is not kept open: each read sees that it is still the one that was checked, and was not
    written to, so that all that is ever read of it is one file. It is read and not mapped, because
    the system ends a process without a word when a file that it maps is cut short.

    Attributes:
        path: the file.
        entries: what the header says of each tensor.
    """

    def __init__(self, path: Path) -> None:
        """Read the header; no tensor's bytes are touched.

        Raises:
            CheckpointError: the file is missing, cut short, a Git LFS pointer or no safetensors
                file; or its header names a tensor twice, gives one a place that is not its alone,
                or a dtype that is not supported.
        """
        self.path = path
        with READER.open(path) as file:
            try:
                self._state = file_state(file.fileno())
                self.entries = checked_entries(file, path)
            except OSError as error:
                raise self._unreadable(error) from None

    def pieces(self, name: str) -> Iterator[torch.Tensor]:
        """Read a tensor's values in row-major order, at most 8 MB at a time.

        Yields:
            ``[n]``, on the CPU, in the dtype it is stored in; each is overwritten by the next. None
            for a tensor without elements.

        Raises:
            CheckpointError: the file is no longer what it was, or cannot be read. Where that is so
                at the end, what came before is of no use.
        """
        entry = self.entries[name]
        buffer = memoryview(bytearray(min(_PIECE_BYTES, entry.num_bytes)))
        with READER.open(self.path) as file:
            try:
                self._check_state(name, file.fileno())
                file.seek(entry.start)
                for start in range(0, entry.num_bytes, _PIECE_BYTES):
                    piece = buffer[: entry.num_bytes - start]
                    if file.readinto(piece) != len(piece):
                        raise self._changed(name)
                    yield torch.frombuffer(piece, dtype=entry.dtype)
                self._check_state(name, file.fileno())
            except OSError as error:
                raise self._unreadable(error) from None

    def _check_state(self, name: str, descriptor: int) -> None:
        if file_state(descriptor) != self._state:
            raise self._changed(name)

    def _changed(self, name: str) -> CheckpointError:
        return CheckpointError(
            f'{self.path}: tensor "{name}" cannot be read: the file has changed since it was '
            "opened (it was written to, or another one took its name). Nothing was loaded. Open "
            "the checkpoint again when its files are whole."
        )

    def _unreadable(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"{self.path}: cannot be read: {error.strerror or error}.")
