"""Ctrl-D while an answer is made."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

if sys.platform != "win32":
    import termios


@contextmanager
def ctrl_d_waits() -> Iterator[None]:
    """Within it, Ctrl-D waits like any key that is pressed meanwhile, and ends the next prompt.

    Otherwise the terminal would take it for the end of a line that nobody reads, and it would be
    lost.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before, within = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    within[6][termios.VEOF] = os.fpathconf(terminal, "PC_VDISABLE").to_bytes(1, "little")
    termios.tcsetattr(terminal, termios.TCSANOW, within)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
