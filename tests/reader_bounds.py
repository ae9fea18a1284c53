"""What a reader may do with a hostile file: refuse it, soon, in little memory, as one of ours."""

import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings

from augur_model import ModelError
from augur_weights import WeightsError

MAX_S = 5.0
MAX_BYTES = 200 * 10**6
MAX_EXAMPLES = int(os.environ.get("AUGUR_FUZZ_EXAMPLES", "100"))

# The examples are the same in every run; AUGUR_FUZZ_EXAMPLES asks for more of them.
fuzzing = settings(
    max_examples=MAX_EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Tally:
    """What the examples of one reader came to."""

    reader: str
    examples: int = 0
    refused: int = 0
    total_s: float = 0.0
    slowest_s: float = 0.0
    peak_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"{self.reader}: {self.examples} examples, {self.refused} refused, "
            f"{self.total_s:.1f} s, the slowest {self.slowest_s * 1e3:.0f} ms, peak growth "
            f"{self.peak_bytes / 1e6:.1f} MB"
        )


def check_bounded(read: Callable[[], object], tally: Tally) -> bool:
    """Call a reader, and fail unless it ends in time, in bounded memory, well or with our error.

    The time is the processor's, so that other work on the machine makes no test fail. The memory
    is what the process grew by at its peak, whoever allocated it: Python, torch or a memory map.

    Returns:
        whether it was well.
    """
    resident_before = _reset_resident_peak()
    started_s = time.process_time()
    message = None
    try:
        read()
    except (WeightsError, ModelError) as error:
        message = str(error)
    took_s = time.process_time() - started_s
    grown_bytes = _resident("VmHWM") - resident_before

    tally.examples += 1
    tally.refused += message is not None
    tally.total_s += took_s
    tally.slowest_s = max(tally.slowest_s, took_s)
    tally.peak_bytes = max(tally.peak_bytes, grown_bytes)
    assert took_s < MAX_S
    assert grown_bytes < MAX_BYTES
    if message is not None:
        assert message.strip()
        assert message.isprintable(), message
        assert len(message) < 4000
    return message is None


def _reset_resident_peak() -> int:
    """Bytes that are resident now, from which on the kernel's high-water mark counts."""
    gc.collect(0)
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _resident("VmRSS")


def _resident(key: str) -> int:
    if sys.platform != "linux":
        return 0  # no way to set the peak back: the time alone is bounded
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the kernel does not tell {key}")
