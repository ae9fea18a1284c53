"""What tells one checkpoint from another."""

import hashlib
from pathlib import Path

from augur_tok import Tokenizer
from augur_weights import Checkpoint, Progress, file_sha256


def checkpoint_sha256(folder: Path, progress: Progress) -> str:
    """A digest of every file that the model and its tokenizer are made of, and of no other.

    A name would not do: the files under it may change. What else lies in the folder does not
    matter, and is not opened: it may be a pipe.
    """
    files = sorted({*Checkpoint(folder).files_read, *Tokenizer.from_folder(folder).files})
    digest = hashlib.sha256()
    for done, path in enumerate(files):
        progress("checkpoint's digest", done, len(files))
        digest.update(f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n".encode())
    progress("checkpoint's digest", len(files), len(files))
    return digest.hexdigest()
