"""Ctrl-C while an answer is made."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from augur.answer import Answer


@contextmanager
def ctrl_c_stops(answer: Answer) -> Iterator[None]:
    """Within it, Ctrl-C ends the answer after the token under way.

    Raises:
        KeyboardInterrupt: there is no token yet. The prompt may take long, and nothing is lost.
    """

    def stop(_signal_number: int, _frame: FrameType | None) -> None:
        if not answer.has_begun:
            raise KeyboardInterrupt
        answer.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
