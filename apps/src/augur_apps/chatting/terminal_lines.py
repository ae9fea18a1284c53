"""A person's lines from a terminal."""

import sys

from prompt_toolkit import PromptSession
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

PROMPT = "> "


class TerminalLines:
    """Line editing, a history of this session, and pasted text of several lines as one.

    The prompt goes to stderr: stdout is for the answers.
    """

    is_interactive = True

    def __init__(self) -> None:
        self._session: PromptSession[str] = PromptSession(
            PROMPT, key_bindings=_newline_keys(), output=create_output(sys.stderr)
        )

    def read(self) -> str:
        """See `Lines.read`."""
        return self._session.prompt()


def _newline_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _insert_newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
