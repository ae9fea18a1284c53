"""Workers: what a process tells, and what is told of one that ends."""

import mmap
import os
import signal

import pytest
import torch

from augur_bench import RungFailedError, RungUnavailableError
from augur_bench.machine import peak_memory, reset_peak_memory
from augur_bench.process import WorkerProcess
from augur_bench.worker import Worker

CPU = torch.device("cpu")


@pytest.mark.gate
def test_a_worker_answers_until_its_process_is_gone(make_settings, capfd):
    with WorkerProcess("trial", make_settings(threads=1)) as worker:
        with pytest.raises(RungFailedError, match="trial failed while generating: AttributeError"):
            worker.ask(Worker.run, [1], 1)
        with pytest.raises(RungUnavailableError, match="there is no abacus here"):
            worker.ask(Worker.load, "lacking")
        assert worker.ask(Worker.load, "printing") > 0
        warm_up, _ = worker.ask(Worker.warm_up, [1, 2], 8)
        assert warm_up.peak_bytes is None or warm_up.peak_bytes > 0
        os.kill(worker.process_id, signal.SIGKILL)
        with pytest.raises(RungFailedError, match="killed by signal 9, perhaps for want of memory"):
            worker.ask(Worker.run, [1], 1)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "hello from the rung" in printed.err


def test_the_peak_is_that_since_the_reset():
    if not reset_peak_memory(CPU):
        pytest.skip("this system cannot reset a process's peak")
    before = peak_memory(CPU)
    # A map of its own: what the process has freed before may be taken again without growing.
    with mmap.mmap(-1, 2**28) as taken:
        torch.frombuffer(taken, dtype=torch.uint8).fill_(1)
        assert peak_memory(CPU) - before > 0.9 * 2**28
    assert reset_peak_memory(CPU)
    assert peak_memory(CPU) - before < 2**26
