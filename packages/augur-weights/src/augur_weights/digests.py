"""What tells whether a file is, byte for byte, the one that it should be."""

import hashlib
from pathlib import Path

_GIT_DIGITS = 40


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises OSError where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_like(known: str, path: Path) -> str:
    """The digest of a file of the same kind as ``known``: by the number of its digits.

    SHA-256 of the content has 64. The SHA-1 by which git knows a file, as the Hub does for its
    small ones, has 40; a git blob is its length, then its content.
    """
    if len(known) != _GIT_DIGITS:
        return file_sha256(path)
    blob = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: blob).hexdigest()


def digest_name(digest: str) -> str:
    """What a digest is called."""
    return "git SHA-1" if len(digest) == _GIT_DIGITS else "SHA-256"
