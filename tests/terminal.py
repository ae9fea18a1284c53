"""A program in a terminal of its own, driven as from a keyboard."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"

# The terminal becomes the program's own, so that Ctrl-C reaches it.
_IN_TERMINAL = """
import os, sys
os.login_tty(os.dup(0))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])")


class Terminal:
    """Use it in a `with` block: at its end a program that still runs is killed.

    Args:
        program: a Python file.
        *arguments: its own.
        timeout_s: how long to wait for anything that is expected.
    """

    def __init__(self, program: Path, *arguments: str | Path, timeout_s: float = 40) -> None:
        self._timeout_s = timeout_s
        self._seen = ""
        self._end = 0
        self._keyboard, inside = pty.openpty()
        # No terminal is there to answer the question where the cursor is.
        environment = os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, program, *arguments],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=environment | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        )
        os.close(inside)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._keyboard)

    def type(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def expect(self, pattern: str) -> str:
        """Wait until the text after what was expected before matches, and give the match."""
        until_s = time.monotonic() + self._timeout_s
        while (found := re.compile(pattern).search(self._seen, self._end)) is None:
            if not self._read(until_s):
                raise AssertionError(f"{pattern!r} did not come up in:\n{self._seen}")
        self._end = found.end()
        return found.group()

    def exit_status(self) -> int:
        """Wait for the end."""
        until_s = time.monotonic() + self._timeout_s
        while self._read(until_s):
            pass
        return self._process.wait(max(0.1, until_s - time.monotonic()))

    def _read(self, until_s: float) -> bool:
        """Whether there was something to read in time."""
        ready, _, _ = select.select([self._keyboard], [], [], max(0, until_s - time.monotonic()))
        if not ready:
            return False
        try:
            output = os.read(self._keyboard, 65536)
        except OSError:  # how Linux says that the program has closed its side
            return False
        self._seen = _ESCAPES.sub("", self._seen + output.decode(errors="replace"))
        return bool(output)
