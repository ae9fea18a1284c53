"""Our end of the line to a worker: start it, ask it, end it."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from augur_bench.errors import RungFailedError

_APPS = Path(__file__).resolve().parents[1]
_GRACE_S = 5
_DOING = {
    "environment": "starting",
    "limits": "reading the machine's limits",
    "load": "loading",
    "warm_up": "warming up",
    "run": "generating",
    "peak": "reading its peak memory",
    "record": "writing the logits to compare with",
    "compare": "comparing its logits",
}


class WorkerProcess:
    """A worker; a context manager that ends the process whatever happens.

    Args:
        name: of the rung, for messages.
        device: to run on.
        threads: for torch; None leaves its own choice.
        scratch: a folder for what it compiles.
    """

    def __init__(self, name: str, device: str, threads: int | None, scratch: Path) -> None:
        self._name = name
        arguments = [device] if threads is None else [device, str(threads)]
        self._process = subprocess.Popen(
            # -P: a file of the current folder must not stand in for one of ours.
            [sys.executable, "-P", "-m", "augur_bench.worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | _environment(threads, scratch),
        )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have one command carried out.

        Raises:
            RungFailedError: it failed, or the process ended over it.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("a worker's pipes are always open")
        try:
            stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            ending = _ending(self._process.wait())
            raise RungFailedError(f"{self._name} failed while {_DOING[do]}: {ending}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RungFailedError(f"{self._name} failed while {_DOING[do]}: {answer['error']}")
        return answer

    @property
    def process_id(self) -> int:
        """The system's number for it."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            # The end of its stdin is its end; so it can stop what it started itself.
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment(threads: int | None, scratch: Path) -> dict[str, str]:
    paths = filter(None, (str(_APPS), os.environ.get("PYTHONPATH")))
    settings = {
        "PYTHONPATH": os.pathsep.join(paths),
        # Nothing compiled by an earlier run is found, so the time to compile is always all of it.
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
    }
    if threads is not None:
        settings["OMP_NUM_THREADS"] = str(threads)
    return settings


def _ending(status: int) -> str:
    if status < 0:
        return f"its process was killed by signal {-status}, perhaps for want of memory"
    return f"its process ended with status {status}"
