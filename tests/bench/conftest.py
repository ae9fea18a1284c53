import json
from pathlib import Path
from typing import Any, Self

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import bench
import benchmark.settings
from benchmark.errors import RungFailedError
from benchmark.serve import answer
from benchmark.worker import Worker, commands
from tiny_checkpoint import write_tiny_checkpoint

TRIAL_RUNGS = Path(__file__).with_name("trial_rungs.py")


class WorkerHere:
    """A worker in this process: what it does is the same, and no process has to start."""

    def __init__(self, name: str, device: str, threads: int | None, scratch: Path) -> None:
        del scratch
        self._name = name
        self._commands = commands(Worker(device, threads))

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        request = json.loads(json.dumps({"do": do, **arguments}))
        reply: dict[str, Any] = json.loads(json.dumps(answer(self._commands, request)))
        if "error" in reply:
            raise RungFailedError(f"{self._name} failed: {reply['error']}")
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def run_here(*arguments: str | Path) -> Result:
    """`bench.py` in this process, which has done all the imports."""
    app = typer.Typer()
    app.command()(bench.main)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run_bench(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(benchmark.settings, "WorkerProcess", WorkerHere)
    return run_here


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("bench") / "checkpoint")


@pytest.fixture(scope="session")
def report_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "report"


@pytest.fixture(scope="session")
def result(tiny_folder: Path, report_folder: Path) -> dict[str, Any]:
    """One run of all there is: rungs of the ladder and others, a peer, sweeps, a report."""
    arguments = [
        *("--model", tiny_folder, "--max-new-tokens", "6", "--repeats", "2", "--device", "cpu"),
        *("--rungs", "cached,bfloat16,sleepy,lacking,unfitting", "--rungs-from", TRIAL_RUNGS),
        *("--check-tokens", "2", "--against", "transformers"),
        *("--sweep", "prompt", "--sweep", "new-tokens", "--sweep-at", "4,8"),
        *("--json", "-", "--report", report_folder),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark.settings, "WorkerProcess", WorkerHere)
        done = run_here(*arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found
