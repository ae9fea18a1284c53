"""Workers: what a process tells, and what is told of one that ends."""

import mmap
import os
import signal

import pytest
import torch

from augur_bench.errors import RungFailedError
from augur_bench.peak_memory import peak_memory, reset_peak_memory
from augur_bench.worker_process import WorkerProcess

CPU = torch.device("cpu")


def test_a_worker_answers_until_its_process_is_gone(tiny_folder, tmp_path):
    with WorkerProcess("trial", "cpu", 1, tmp_path) as worker:
        assert worker.ask("environment")["threads"] == 1
        with pytest.raises(RungFailedError, match="trial failed while generating: RuntimeError"):
            worker.ask("run", prompt_token_ids=[1], max_new_tokens=1)
        answer = worker.ask(
            "load", rung="cached", rungs_from=None, folder=str(tiny_folder), dtype="float32"
        )
        assert answer["missing"] is None
        os.kill(worker.process_id, signal.SIGKILL)
        with pytest.raises(RungFailedError, match="killed by signal 9, perhaps for want of memory"):
            worker.ask("warm_up", prompt_token_ids=[1], capacity=8)


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
