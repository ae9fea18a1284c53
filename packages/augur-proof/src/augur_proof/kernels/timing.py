"""How fast a kernel is beside what the machine allows, with its values checked again."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.calling import on_device
from augur_proof.kernels.op import Kernel, Op, Workload
from augur_proof.kernels.verdict import Outcome, judge_outputs

_FEWEST_CALLS = 3
_TRIES = 10
_ONE_THREAD = 2**14
"""Elements; torch shares out among threads what has more than 2**15."""
_BELIEVABLE = 1.5
"""Of the limit. A copy and a product as torch does them come within some tens of percent of what
memory and arithmetic allow; one that is faster still has not done the work."""


@dataclass(frozen=True)
class Rate:
    """What timing a workload gave.

    Attributes:
        seconds: of one call, the median.
        bytes_moved: what must be read and written at least: inputs and outputs.
        flops: what must be multiplied and added at least; 0 where memory alone can be the limit.
        memory_seconds: that a copy takes which moves as many bytes.
        arithmetic_seconds: that as many operations take in a large matrix product of this dtype.
        check: the values of the last call, judged.
    """

    seconds: float
    bytes_moved: int
    flops: float
    memory_seconds: float
    arithmetic_seconds: float
    check: Outcome

    @property
    def share(self) -> float:
        """Of the limit that the machine sets: 1 is as fast as it goes."""
        return max(self.memory_seconds, self.arithmetic_seconds) / self.seconds

    @property
    def bound(self) -> str:
        """What sets the limit."""
        return "memory" if self.memory_seconds >= self.arithmetic_seconds else "arithmetic"

    @property
    def believable(self) -> bool:
        """False where more was claimed than the machine can do."""
        return self.share <= _BELIEVABLE


@torch.inference_mode()
def time_workload(
    kernel: Kernel,
    op: Op,
    workload: Workload,
    device: torch.device | str = "cpu",
    least_seconds: float = 0.01,
) -> Rate:
    """Call again and again, on two sets of inputs in turn, for at least so long."""
    device = torch.device(device)
    generator = torch.Generator().manual_seed(torch.seed())
    sets = [tuple(on_device(one, device) for one in op.draw(workload, generator)) for _ in range(2)]
    kernel(*sets[0])  # compiles
    seconds: list[float] = []
    while len(seconds) < _FEWEST_CALLS or sum(seconds) < least_seconds:
        inputs = sets[len(seconds) % 2]
        seconds.append(_seconds(lambda inputs=inputs: kernel(*inputs), device))  # type: ignore[misc]
    inputs = sets[len(seconds) % 2]
    given = kernel(*inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    moved = sum(v.nbytes for v in (*inputs, *outputs) if isinstance(v, Tensor))
    flops = op.flops(workload)
    rate = Rate(
        seconds=sorted(seconds)[len(seconds) // 2],
        bytes_moved=moved,
        flops=flops,
        memory_seconds=_copy_seconds(moved, device),
        arithmetic_seconds=flops / _flops_per_second(workload.dtype, device) if flops else 0.0,
        check=judge_outputs(op, workload, inputs, outputs),
    )
    for _ in range(_TRIES):
        if rate.believable:
            break
        # A machine that was busy meanwhile makes its limit look low: accused is who is always so.
        again = min(rate.memory_seconds, _copy_seconds(moved, device))
        rate = replace(rate, memory_seconds=again)
    return rate


def _copy_seconds(num_bytes: int, device: torch.device) -> float:
    """Of reading one half and writing the other; in the caches if it fits there, as the kernel."""
    source = torch.ones(num_bytes // 16 + 1, dtype=torch.float64, device=device)
    target = torch.empty_like(source)
    ways: list[Callable[[], Any]] = [lambda: target.copy_(source)]
    if device.type == "cpu":
        # Pieces that one thread copies, for where waking the others takes longer than the copy.
        pieces = list(
            zip(torch.split(target, _ONE_THREAD), torch.split(source, _ONE_THREAD), strict=True)
        )
        ways.append(lambda: [to.copy_(one) for to, one in pieces])
    return min(_seconds(way, device) for way in ways for _ in range(5))


@lru_cache
def _flops_per_second(dtype: torch.dtype, device: torch.device) -> float:
    size = 512 if device.type == "cpu" else 8192
    factor = torch.ones(size, size, dtype=dtype, device=device)
    return 2 * size**3 / min(_seconds(lambda: factor @ factor, device) for _ in range(3))


def _seconds(call: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun
