"""Each way in which a disk refuses is told by its own name, with what helps."""

import errno
import os
from pathlib import Path

import pytest

from augur_weights.disk_errors import disk_reason, is_disk_error

CASES = {
    errno.ENOSPC: ("the disk is full", "free space"),
    errno.EDQUOT: ("quota", "free space there or have the quota raised"),
    errno.EFBIG: ("larger than is allowed", "ulimit -f"),
    errno.EROFS: ("read-only", "mount it writable"),
    errno.EACCES: ("may not write", "rights"),
    errno.ENOTDIR: ("a file is where a folder is needed", "move that file away"),
    errno.EIO: ("the disk fails", "check the disk"),
}


@pytest.mark.parametrize("number", CASES, ids=errno.errorcode.__getitem__)
def test_the_reason_and_the_remedy_fit_the_errno(number: int) -> None:
    error = OSError(number, os.strerror(number), "/cache/file")
    said = disk_reason(Path("/cache"), error, "AUGUR_CACHE")
    for part in (*CASES[number], os.strerror(number), "/cache/file", "set AUGUR_CACHE"):
        assert part in said
    others = {reason for other, (reason, _) in CASES.items() if other != number}
    assert not [reason for reason in others if reason in said]
    assert is_disk_error(error)


@pytest.mark.parametrize("error", [ConnectionRefusedError(errno.ECONNREFUSED, "no"), OSError("x")])
def test_what_the_network_refuses_is_not_the_disks(error: OSError) -> None:
    assert not is_disk_error(error)


def test_another_refusal_is_quoted() -> None:
    said = disk_reason(Path("/cache"), OSError(errno.ELOOP, "Too many links"), "HF_HOME")
    assert said.startswith("the system refuses (Too many links: /cache)")
