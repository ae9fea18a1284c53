"""Workers in the test's own process: what they do is the same, and no process has to start."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from augur_bench import limits, process
from augur_bench.settings import Settings
from augur_bench.worker import Worker, answer

TRIAL_RUNGS = Path(__file__).with_name("trial_rungs.py")


class WorkerHere(process.WorkerProcess):
    """A `WorkerProcess` without a process; requests and answers go the way they would."""

    asked: list[tuple[str, str]] = []  # noqa: RUF012  (of the whole run, not of one)

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._worker = Worker(settings)

    def _exchange(self, command: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
        self.asked.append((command, self._name))
        request = pickle.loads(pickle.dumps((command, arguments)))
        return pickle.loads(pickle.dumps(answer(self._worker, *request)))

    def __exit__(self, *_: object) -> None: ...


def work_here(patch: pytest.MonkeyPatch) -> None:
    """Let all workers be here, and the machine's limits be read in moments, far too low."""
    patch.setattr(process, "WorkerProcess", WorkerHere)
    patch.setattr(WorkerHere, "asked", [])
    patch.setattr(limits, "_BUFFER_BYTES", {"cpu": 2**20})
    patch.setattr(limits, "_MATRIX_SIZES", (64,))
