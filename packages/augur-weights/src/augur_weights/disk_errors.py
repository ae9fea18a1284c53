"""What to tell a person when the disk does not take what is written to it."""

import errno
from pathlib import Path

# What is wrong, and what helps, for each way in which a disk refuses. Where the network fails, the
# errno is another one, so these also tell the two apart.
_REASONS = {
    errno.ENOSPC: ("the disk is full", "free space there"),
    errno.EDQUOT: ("your disk quota is used up", "free space there or have the quota raised"),
    errno.EFBIG: ("the file would be larger than is allowed", "raise the limit (ulimit -f)"),
    errno.EROFS: ("the disk is mounted read-only", "mount it writable"),
    errno.EACCES: ("you may not write there", "change the folder's rights"),
    errno.EPERM: ("you may not write there", "change the folder's rights"),
    errno.ENOTDIR: ("a file is where a folder is needed", "move that file away"),
    errno.EEXIST: ("a file is where a folder is needed", "move that file away"),
    errno.ENAMETOOLONG: ("the path is too long", "shorten it"),
    errno.EIO: ("the disk fails", "check the disk"),
}


def is_disk_error(error: BaseException) -> bool:
    """Whether an error is the disk's and not the network's."""
    return isinstance(error, OSError) and error.errno in _REASONS


def disk_reason(path: Path, error: OSError, setting: str) -> str:
    """Why ``path`` cannot be written and what to do; ``setting`` is a variable that moves it."""
    # The error may name a more exact path.
    where = error.filename if isinstance(error.filename, str) else path
    said = error.strerror or str(error)
    reason, remedy = _REASONS.get(error.errno or 0, ("the system refuses", "check the folder"))
    return f"{reason} ({said}: {where}); {remedy}, or set {setting} to another folder"
