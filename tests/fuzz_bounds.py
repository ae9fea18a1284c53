"""Bounds under which code in C or Rust runs too: what Python's own measure of memory cannot see."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from reader_bounds import MAX_BYTES, MAX_S

MOMENT = datetime(2024, 2, 29)  # for templates that ask for the date


@contextmanager
def bounded() -> Iterator[None]:
    """Refuse memory beyond MAX_BYTES to what runs inside (Linux alone can), and time beyond MAX_S.

    The time is the processor's, so that other work on the machine makes no test fail.
    """
    start_s = time.process_time()
    with _little_memory():
        yield
    assert time.process_time() - start_s < MAX_S


@contextmanager
def _little_memory() -> Iterator[None]:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * os.sysconf("SC_PAGE_SIZE") + MAX_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
