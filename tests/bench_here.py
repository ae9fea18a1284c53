"""`bench.py` and its workers in this process: what they do is the same, and it is sooner done."""

import json
from pathlib import Path
from typing import Any, Self

from click.testing import Result
from typer.testing import CliRunner

from augur_apps import bench
from augur_bench.errors import RungFailedError
from augur_bench.serve import answer
from augur_bench.worker import Worker, commands

TRIAL_RUNGS = Path(__file__).with_name("bench") / "trial_rungs.py"


class WorkerHere:
    """A worker in this process: what it does is the same, and no process has to start."""

    def __init__(self, name: str, device: str, threads: int | None, scratch: Path) -> None:
        self.scratch = scratch
        self.name = name
        self._commands = commands(Worker(device, threads))

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        request = json.loads(json.dumps({"do": do, **arguments}))
        reply: dict[str, Any] = json.loads(json.dumps(answer(self._commands, request)))
        if "error" in reply:
            raise RungFailedError(f"{self.name} failed: {reply['error']}")
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def run_here(*arguments: str | Path) -> Result:
    """`bench.py` in this process, which has done all the imports."""
    return CliRunner().invoke(bench.app, [str(argument) for argument in arguments])
