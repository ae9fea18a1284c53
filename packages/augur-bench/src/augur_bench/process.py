"""Our end of a worker: start its process, ask it, end it."""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from augur_bench.errors import RungFailedError, RungUnavailableError
from augur_bench.settings import Settings
from augur_bench.worker import Worker, serve

# A new interpreter: a copy of this process would have its memory and threads.
_SPAWN = multiprocessing.get_context("spawn")
_GRACE_S = 5
_DOING = {
    "environment": "starting",
    "limits": "reading the machine's limits",
    "load": "loading",
    "warm_up": "warming up",
    "run": "generating",
    "record": "writing the logits to compare with",
    "compare": "comparing its logits",
}

P = ParamSpec("P")
T = TypeVar("T")


class WorkerProcess:
    """A `Worker` in a process of its own; a context manager that ends it whatever happens.

    Args:
        name: of the rung, for messages.
        settings: of the bench's run.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(theirs, settings), name=name)
        with _inherited(settings):
            self._process.start()
        theirs.close()  # the process has its own, and its end closes the line

    def ask(
        self, command: Callable[Concatenate[Worker, P], T], *arguments: P.args, **_: P.kwargs
    ) -> T:
        """Have one method of the worker carried out, and give what it gives.

        Raises:
            RungUnavailableError: something is missing for the rung.
            RungFailedError: it failed, or the process ended over it.
        """
        try:
            self._connection.send((command.__name__, arguments))
            error, found = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            error, found = RungFailedError, _ending(self._process.exitcode)
        answer: T = answered(self._name, command.__name__, error, found)
        return answer

    @property
    def process_id(self) -> int | None:
        """The system's number for it."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._connection.close()  # which is its end, once it is done with what it does
        if error is not None:
            self._process.terminate()
        self._process.join(_GRACE_S)
        self._process.kill()
        self._process.join()


def answered(name: str, command: str, error: type[Exception] | None, found: Any) -> Any:
    """What a worker gave, or raise what it could not do; arguments as `answer` gives them."""
    if error is RungFailedError:
        raise RungFailedError(f"{name} failed while {_DOING[command]}: {found}")
    if error is RungUnavailableError:
        raise RungUnavailableError(found)
    return found


@contextmanager
def _inherited(settings: Settings) -> Iterator[None]:
    """What a process that starts now takes over from this one."""
    variables = {
        # Nothing compiled by an earlier process is found: the time to compile is always all of it.
        "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(dir=settings.scratch),
        # A file of the current folder must not stand in for a module of Python's.
        "PYTHONSAFEPATH": "1",
    }
    if settings.threads is not None:
        variables["OMP_NUM_THREADS"] = str(settings.threads)
    before = dict(os.environ)
    os.environ.update(variables)
    # Ctrl-C at a terminal is for this process, which then ends the others.
    mask: set[Any] = set()
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # it starts with the first process, and would unblock
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name in variables:
            del os.environ[name]
        os.environ.update(before)


def _ending(status: int | None) -> str:
    if status is not None and status < 0:
        return f"its process was killed by signal {-status}, perhaps for want of memory"
    return f"its process ended with status {status}"
