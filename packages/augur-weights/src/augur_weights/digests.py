"""What tells whether a file is, byte for byte, the one that it should be."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Digest:
    """The digest that a file should have.

    Attributes:
        hex: in hexadecimal: SHA-256 of the content where it has 64 digits, and where it has 40 the
            SHA-1 by which git knows it, as the Hub does for its small files.
    """

    hex: str

    @property
    def name(self) -> str:
        """What it is called."""
        return "SHA-256" if len(self.hex) == 64 else "git SHA-1"

    def of(self, path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
        """The digest of this kind that a file has, in hexadecimal.

        Args:
            path: the file; it is read once, a few MB at a time.
            on_bytes: told how many bytes have been read since the last call.

        Raises:
            OSError: the file cannot be read.
        """
        return (file_sha256 if len(self.hex) == 64 else _git_sha1)(path, on_bytes)


def file_sha256(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises OSError where it cannot be read."""
    return _fed(hashlib.sha256(), path, on_bytes)


def _git_sha1(path: Path, on_bytes: Callable[[int], None] | None) -> str:
    # A git blob is its length, then its content.
    start = b"blob %d\0" % path.stat().st_size
    return _fed(hashlib.sha1(start, usedforsecurity=False), path, on_bytes)


def _fed(digest: "hashlib._Hash", path: Path, on_bytes: Callable[[int], None] | None) -> str:
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            if on_bytes is not None:
                on_bytes(len(data))
    return digest.hexdigest()
