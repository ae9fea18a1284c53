"""How fast a kernel is beside what the machine's memory allows, with its values checked again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.op import Kernel, Op, Workload
from augur_proof.kernels.trial import Outcome, judge_outputs

_BUFFER_BYTES = 256 * 2**20
"""Larger than any cache."""
_FEWEST_CALLS = 5
_BELIEVABLE = 1.05
"""Of the measured bandwidth; more is a cache, a clock, or work that was not done."""


@dataclass(frozen=True)
class Rate:
    """What timing a workload gave.

    Attributes:
        seconds: of one call, the median.
        bytes_moved: what must be read and written at least: inputs and outputs.
        bandwidth: bytes/s that a copy on this device reaches.
        check: the values of the last call, judged.
    """

    seconds: float
    bytes_moved: int
    bandwidth: float
    check: Outcome

    @property
    def share(self) -> float:
        """Of the bandwidth."""
        return self.bytes_moved / self.seconds / self.bandwidth

    @property
    def believable(self) -> bool:
        """False where more than the memory can move was claimed, beyond what caches hold."""
        return self.share <= _BELIEVABLE or self.bytes_moved < _BUFFER_BYTES


@torch.inference_mode()
def time_workload(
    kernel: Kernel,
    op: Op,
    workload: Workload,
    device: torch.device | str,
    bandwidth: float,
    least_seconds: float = 0.05,
) -> Rate:
    """Call again and again, on two sets of inputs in turn, for at least so long."""
    device = torch.device(device)
    generator = torch.Generator().manual_seed(torch.seed())
    sets = [
        tuple(v.to(device) if isinstance(v, Tensor) else v for v in op.draw(workload, generator))
        for _ in range(2)
    ]
    kernel(*sets[0])  # compiles
    seconds: list[float] = []
    while len(seconds) < _FEWEST_CALLS or sum(seconds) < least_seconds:
        inputs = sets[len(seconds) % 2]
        seconds.append(_seconds(lambda inputs=inputs: kernel(*inputs), device))  # type: ignore[misc]
    inputs = sets[len(seconds) % 2]
    given = kernel(*inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    moved = sum(v.nbytes for v in (*inputs, *outputs) if isinstance(v, Tensor))
    check = judge_outputs(op, workload, inputs, outputs)
    return Rate(sorted(seconds)[len(seconds) // 2], moved, bandwidth, check)


def measured_bandwidth(device: torch.device | str) -> float:
    """Bytes/s of a copy, read and written, on a device; the best of five."""
    device = torch.device(device)
    source = torch.ones(_BUFFER_BYTES // 4, device=device)
    target = torch.empty_like(source)
    best = min(_seconds(lambda: target.copy_(source), device) for _ in range(5))
    return 2 * _BUFFER_BYTES / best


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
