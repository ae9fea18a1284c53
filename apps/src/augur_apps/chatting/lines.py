"""Where a person's lines come from: a terminal with editing and history, or a pipe."""

import sys
from typing import BinaryIO, Protocol

from augur.errors import ConversationError


class Lines(Protocol):
    """One text after another."""

    is_interactive: bool
    """Whether a person is there who can read a hint and try again."""

    def read(self) -> str:
        """The next text, without the newline at its end.

        Raises:
            EOFError: there is no other.
            KeyboardInterrupt: Ctrl-C.
            ConversationError: the text cannot be read; the next one can.
        """
        ...


class PipedLines:
    """The lines of a stream of bytes, in UTF-8."""

    is_interactive = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._is_first = True

    def read(self) -> str:
        """See `Lines.read`."""
        line = self._stream.readline()
        if not line:
            raise EOFError
        encoding = "utf-8-sig" if self._is_first else "utf-8"  # a file may begin with a BOM
        self._is_first = False
        try:
            return line.decode(encoding).removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ConversationError(
                "a line on stdin is not UTF-8 (byte %s); it was not sent", error.start
            ) from None


def open_lines() -> Lines:
    """The terminal, if there is one to read from and to draw on, else the pipe."""
    if sys.stdin is None:
        raise ConversationError("stdin is closed; there is nothing to read messages from")
    if sys.stdin.isatty() and sys.stderr.isatty():
        # Not for a pipe: its library takes a third of a second to import.
        from augur_apps.chatting.terminal_lines import TerminalLines  # noqa: PLC0415

        return TerminalLines()
    return PipedLines(sys.stdin.buffer)
