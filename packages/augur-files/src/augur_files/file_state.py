"""Whether a file is still the one that was looked at."""

import os
from pathlib import Path


def file_state(file: Path | int) -> tuple[int, ...]:
    """What changes when another file takes a file's name, or when the file is written to.

    Device, inode, size, and the times of change of its content and of the rest (``st_ctime``, which
    no program can set back), in the clock ticks of the file system: of two changes within one tick,
    a few ms, the second shows in the size alone.

    Args:
        file: a path, or the descriptor of an open file.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(file)  # noqa: PTH116 (a descriptor has no path)
    when = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *when)
