"""Saying what is being done, while it is done."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Say = Callable[[str], None]


@contextmanager
def progress(console: Console) -> Iterator[Say]:
    """On a terminal one line that changes, elsewhere a line for each thing said."""
    started_s = time.perf_counter()

    def line(text: str) -> str:
        return f"{time.perf_counter() - started_s:6.0f} s  {text}"

    if console.is_terminal:
        with console.status("") as status:
            yield lambda text: status.update(line(text))
    else:
        yield lambda text: console.print(line(text), markup=False)
