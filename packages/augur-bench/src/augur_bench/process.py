"""Our end of a worker: start its process, ask it, end it."""

import multiprocessing
import os
import signal
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
    "machine": "reading the machine's limits",
    "load": "loading",
    "warm_up": "warming up",
    "run": "generating",
    "answer_many": "answering many sequences",
    "record": "writing the logits to compare with",
    "compare": "comparing its logits",
}

P = ParamSpec("P")
T = TypeVar("T")


class WorkerProcess:
    """A `Worker` in a process of its own; a context manager that ends it whatever happens.

    It starts when it is first asked, so that there is never one that nothing would end.

    Args:
        name: of the rung, for messages.
        settings: of the bench's run.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._connection, self._theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(self._theirs, settings), name=name)

    def ask(
        self, command: Callable[Concatenate[Worker, P], T], *arguments: P.args, **_: P.kwargs
    ) -> T:
        """Have one method of the worker carried out, and give what it gives.

        Raises:
            RungUnavailableError: something is missing for the rung.
            RungFailedError: it failed, or the process ended over it.
        """
        error, found = self._exchange(command.__name__, arguments)
        if error is RungUnavailableError:
            raise RungUnavailableError(found)
        if error is not None:
            doing = _DOING[command.__name__]
            raise RungFailedError(f"{self._name} failed while {doing}: {found}")
        answer: T = found
        return answer

    def _exchange(self, command: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
        """As `worker.answer`."""
        if self._process.pid is None:
            with _inherited():
                self._process.start()
            self._theirs.close()  # the process has its own, and its end closes the line
        try:
            self._connection.send((command, arguments))
            answer: tuple[Any, Any] = self._connection.recv()
            return answer
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode or 0
            if status >= 0:
                return RungFailedError, f"its process ended with status {status}"
            killed = f"its process was killed by signal {-status}, perhaps for want of memory"
            return RungFailedError, killed

    @property
    def process_id(self) -> int | None:
        """The system's number for it."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._process.pid is not None:
            if error is not None:
                self._process.terminate()
            self._connection.close()  # which is its end, once it is done with what it does
            self._process.join(_GRACE_S)
            self._process.kill()
            self._process.join()


@contextmanager
def _inherited() -> Iterator[None]:
    """What a process that starts now takes over from this one."""
    # Ctrl-C at a terminal is for this process, which then ends the others.
    mask: set[Any] = set()
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # it starts with the first process, and would unblock
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A file of the current folder must not stand in for a module of Python's.
    before = os.environ.get("PYTHONSAFEPATH", "")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        os.environ["PYTHONSAFEPATH"] = before  # empty is unset, to Python
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
