"""Work in processes of their own that start quickly, can be killed, and tell how far they are."""

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

# A server that has imported everything forks the processes: each starts in milliseconds and, other
# than a fork of the test's own process, has none of its threads.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["augur_weights.gguf_safetensors", "augur_weights.hub", "gguf"])

TIMEOUT_S = 120


class SeparateProcess:
    """One call in another process, which sends b"." at each step and at last what it came to."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._steps, theirs = _context.Pipe(duplex=False)
        self._process: BaseProcess = _context.Process(target=work, args=(theirs, *arguments))
        self._process.start()
        theirs.close()

    def step(self) -> bytes | None:
        """Wait for the next step, or for what the call came to; None once the process is gone."""
        if not self._steps.poll(TIMEOUT_S):
            raise TimeoutError("the process does not go on")
        try:
            return self._steps.recv_bytes()
        except EOFError:
            return None

    def result(self) -> str:
        """Wait for the end of the call: what it returned, or its error's message."""
        last = b""
        while (step := self.step()) is not None:
            last = step
        self._process.join(TIMEOUT_S)
        return last.decode()

    def kill(self) -> int | None:
        """End the process as a power cut would, and give its exit status."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(TIMEOUT_S)
        return self._process.exitcode


def import_in_steps(steps: Connection, path: Path, cache: Path, pause_s: float) -> None:
    """Import a GGUF file, with a pause after each chunk, so that there is time to be killed."""
    from augur_weights import import_gguf

    def progress(*_: object) -> None:
        steps.send_bytes(b".")
        time.sleep(pause_s)

    _tell(steps, lambda: import_gguf(path, cache_dir=cache, progress=progress))


def import_with_limited_files(steps: Connection, path: Path, cache: Path, limit: int) -> None:
    """Import a GGUF file where no file may grow beyond `limit` bytes."""
    from augur_weights import import_gguf

    _limit_files(limit)
    _tell(steps, lambda: import_gguf(path, cache_dir=cache))


def download(steps: Connection, hub_url: str, cache: Path, limit: int | None = None) -> None:
    """Fetch org/name from a stand-in of the Hub."""
    from huggingface_hub import constants
    from huggingface_hub.utils import disable_progress_bars

    from augur_weights.hub import hub_checkpoint

    constants.ENDPOINT = hub_url
    constants.HUGGINGFACE_CO_URL_TEMPLATE = hub_url + "/{repo_id}/resolve/{revision}/{filename}"
    constants.HF_HUB_OFFLINE = False
    disable_progress_bars()
    if limit is not None:
        _limit_files(limit)
    _tell(steps, lambda: hub_checkpoint("org/name", cache_dir=cache))


def _limit_files(limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails with EFBIG
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _tell(steps: Connection, work: Callable[[], Path]) -> None:
    from augur_weights import WeightsError

    try:
        steps.send_bytes(str(work()).encode())
    except WeightsError as error:
        steps.send_bytes(f"{type(error).__name__}: {error}".encode())
