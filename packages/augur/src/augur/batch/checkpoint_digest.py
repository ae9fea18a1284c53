"""What tells one checkpoint from another."""

import hashlib
from pathlib import Path

from augur_weights import Checkpoint, Progress, file_sha256


def checkpoint_sha256(folder: Path, progress: Progress) -> str:
    """A digest of every file that the model and its tokenizer are made of.

    A name would not do: the files under it may change.
    """
    files = set(Checkpoint(folder).files)
    for pattern in ("*.json", "*.txt", "*.jinja", "additional_chat_templates/*.jinja"):
        files |= set(folder.glob(pattern))
    digest = hashlib.sha256()
    for done, path in enumerate(sorted(files)):
        progress("checkpoint's digest", done, len(files))
        digest.update(f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n".encode())
    progress("checkpoint's digest", len(files), len(files))
    return digest.hexdigest()
