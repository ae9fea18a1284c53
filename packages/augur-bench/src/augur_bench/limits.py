"""What this machine allows: bytes read and floating-point operations per second, measured."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import torch
from torch.nn import functional

from augur.devices import DTYPES, DTypeName
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
class Limits:
    """All readings of a run; the best of them, `high`, is the limit: it was reached once.

    On a busy machine a single reading is too low, and a rung would seem to beat the limit.

    Attributes:
        bytes_per_s: read bandwidth.
        flops_per_s: by dtype, the matrix-multiply rate.
    """

    bytes_per_s: Spread
    flops_per_s: dict[DTypeName, Spread]

    @classmethod
    def of(cls, readings: list["Limits"]) -> Self:
        """Of one reading or more, all of the same dtypes."""
        flops = [reading.flops_per_s for reading in readings]
        return cls(
            Spread.across(reading.bytes_per_s for reading in readings),
            {dtype: Spread.across(one[dtype] for one in flops) for dtype in flops[0]},
        )

    def roof_flops_per_s(self, dtype: DTypeName) -> float:
        """The compute limit of a dtype.

        It is no lower than float32's: narrow weights can always be widened on the way in, and
        where PyTorch only emulates a dtype, its own products are far slower than that.
        """
        return max(self.flops_per_s[dtype].high, self.flops_per_s["float32"].high)

    def share(self, work: Work, seconds: Spread, dtype: DTypeName) -> dict[str, Any]:
        """How much of each limit a pass that took `seconds` reached, as fractions of 1.

        `of_roofline` is the larger one: the limit that is nearer is what holds the pass back.
        """
        least_s = {
            "bandwidth": work.num_bytes / self.bytes_per_s.high,
            "compute": work.flops / self.roof_flops_per_s(dtype),
        }
        bound = max(least_s, key=lambda limit: least_s[limit])
        shares = {
            limit: asdict(Spread(least / seconds.median, least / seconds.high, least / seconds.low))
            for limit, least in least_s.items()
        }
        return {**shares, "of_roofline": shares[bound], "bound": bound}


def read_limits(device: torch.device, dtypes: Iterable[DTypeName]) -> Limits:
    """Measure once, in these dtypes and float32."""
    flops_per_s = {
        name: Spread.of([measure_matmul(device, DTYPES[name])])
        for name in sorted({*dtypes, "float32"})
    }
    return Limits(Spread.of([measure_bandwidth(device)]), flops_per_s)


def measure_bandwidth(device: torch.device) -> float:
    """Bytes per second that reading a large float32 tensor reaches, the fastest of several ways."""
    num_bytes = _BUFFER_BYTES.get(device.type, 2**29)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        num_bytes = min(num_bytes, free // 4)
    rows = torch.ones(num_bytes // 2**15, 8192, device=device)
    ways = rows.sum, partial(functional.linear, torch.ones(8192, device=device), rows)
    return rows.nbytes / min(_fastest_s(way, Stopwatch(device)) for way in ways)


def measure_matmul(device: torch.device, dtype: torch.dtype) -> float:
    """FLOPs per second of the fastest square `x @ weight.T`, in the layout that the model uses."""
    best = 0.0
    for size in _MATRIX_SIZES:
        # Not ones: a GPU draws less power, and clocks higher, on numbers that are all alike.
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        seconds = _fastest_s(partial(functional.linear, left, right), Stopwatch(device))
        best = max(best, 2 * size**3 / seconds)
        if seconds > _LONG_ENOUGH_S:
            break
    return best


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
