"""Where answers go: checked before anything is computed, and kept to one process."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from augur.batch.errors import BatchError

# What to do beside giving another output.
_ADVICE = {
    errno.EACCES: ", or allow yourself to read and write there",
    errno.EROFS: ", which is on a disk that can be written",
    errno.ENAMETOOLONG: " with a shorter name",
}


def check_output(path: Path, input_path: Path) -> None:
    """Check that answers may be written to a file; nothing is changed.

    Args:
        path: the file, there already or not.
        input_path: the file of prompts, which is there.

    Raises:
        BatchError: it is no regular file, is that of the prompts, cannot be read and written, or
            its folder cannot be looked into.
    """
    target = Path(os.path.realpath(path))
    with _told_of(path, "cannot be used"):
        if not target.parent.is_dir():
            raise BatchError(f"{path}: there is no folder {target.parent}. Make it first")
        try:
            found = target.stat()
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode):
            raise BatchError(f"{path}: not a regular file. Give another output")
        if os.path.samestat(found, input_path.stat()):
            raise BatchError(f"{path}: it is the input, too. Give another output")
        target.open("r+b").close()


@contextmanager
def only_process_on(path: Path) -> Iterator[None]:
    """Keep other processes from the file.

    The lock is a file beside it, gone at the end. One that a killed process leaves locks nobody
    out: the system lets go of a lock when its process ends.

    Raises:
        BatchError: another process is on it, or its folder takes no lock.
    """
    target = Path(os.path.realpath(path))
    lock_path = target.with_name(f".{target.name}.lock")
    lock = FileLock(lock_path)
    with _told_of(path, f"{lock_path}, which keeps other runs from it, cannot be made or opened"):
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise BatchError(
                f"{path}: another process is writing to it. Wait for that, or give another output"
            ) from None
    try:
        yield
    finally:
        # While it is held: whoever gets hold of it without a name looks for the name anew.
        with suppress(OSError):  # not every system lets go of a name that is open
            lock_path.unlink()
        lock.release()


@contextmanager
def _told_of(path: Path, what: str) -> Iterator[None]:
    """Tell errors of the system as what they are to the person."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "")
        raise BatchError(
            f"{path}: {what}: {error.strerror or error}. Give another output{advice}"
        ) from error
