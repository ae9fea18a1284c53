"""What this machine allows: bytes read and floating-point operations per second, measured."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional

from augur_bench.spread import Spread
from augur_bench.work import Work
from augur_gen import Stopwatch

# Far beyond any cache: of a CPU (up to some 100 MB) and of a GPU (50 MB on an H100).
_BUFFER_BYTES = {"cpu": 2**29, "cuda": 2**31}
_READINGS = 3
_MATRIX_SIZES = (256, 512, 1024, 2048, 4096, 8192)
# A product that takes this long is large enough; emulated half precision takes minutes beyond it.
_LONG_ENOUGH_S = 0.05


@dataclass(frozen=True)
class Share:
    """How much of the limit a pass reached, as fractions of 1.

    Attributes:
        bandwidth: bytes that must be read, per second, over what the memory allows.
        compute: FLOPs that must be done, per second, over what the processor allows.
    """

    bandwidth: Spread
    compute: Spread

    @property
    def of_roofline(self) -> Spread:
        """The larger one: the limit that is nearer is the one that holds the pass back."""
        return max(self.bandwidth, self.compute, key=lambda spread: spread.median)


@dataclass(frozen=True)
class Limits:
    """The best of all readings of a run: a limit is what was reached once.

    Attributes:
        bytes_per_s: the readings of read bandwidth; `high` is the limit.
        flops_per_s: by dtype, the readings of the matrix-multiply rate; `high` is the limit.
    """

    bytes_per_s: Spread
    flops_per_s: dict[str, Spread]

    def roof_flops_per_s(self, dtype: str) -> float:
        """The compute limit of a dtype.

        It is no lower than float32's: narrow weights can always be widened on the way in, and
        where PyTorch only emulates a dtype, its own products are far slower than that.
        """
        return max(self.flops_per_s[dtype].high, self.flops_per_s["float32"].high)

    def share(self, work: Work, seconds: Spread, dtype: str) -> Share:
        """What a pass that took `seconds` reached."""
        at_least_s = (
            work.num_bytes / self.bytes_per_s.high,
            work.flops / self.roof_flops_per_s(dtype),
        )
        return Share(
            *(
                Spread(limit / seconds.median, limit / seconds.high, limit / seconds.low)
                for limit in at_least_s
            )
        )


def measure_bandwidth(device: torch.device) -> float:
    """Bytes per second that reading a large float32 tensor reaches, the fastest of several ways."""
    buffer = torch.ones(_buffer_bytes(device) // 4, device=device)
    rows = buffer.view(-1, 8192)
    vector = torch.ones(8192, device=device)
    ways: tuple[Callable[[], object], ...] = (
        buffer.sum,
        partial(functional.linear, vector, rows),
    )
    stopwatch = Stopwatch(device)
    return buffer.nbytes / min(_fastest_s(way, stopwatch) for way in ways)


def measure_matmul(device: torch.device, dtype: torch.dtype) -> float:
    """FLOPs per second of the fastest square `x @ weight.T`, in the layout that the model uses."""
    best, stopwatch = 0.0, Stopwatch(device)
    for size in _MATRIX_SIZES:
        # Not ones: a GPU draws less power, and clocks higher, on numbers that are all alike.
        left = torch.randn(size, size, device=device).to(dtype)
        right = torch.randn(size, size, device=device).to(dtype)
        seconds = _fastest_s(partial(functional.linear, left, right), stopwatch)
        best = max(best, 2 * size**3 / seconds)
        if seconds > _LONG_ENOUGH_S:
            break
    return best


def _buffer_bytes(device: torch.device) -> int:
    wanted = _BUFFER_BYTES.get(device.type, 2**29)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        wanted = min(wanted, free // 4)
    return wanted // 2**20 * 2**20


@torch.inference_mode()
def _fastest_s(way: Callable[[], object], stopwatch: Stopwatch) -> float:
    way()  # the first one pays for what is set up once
    readings = []
    for _ in range(_READINGS):
        started_s = stopwatch.read()
        way()
        readings.append(stopwatch.read() - started_s)
        if readings[-1] > 10 * _LONG_ENOUGH_S:
            break
    return min(readings)
