"""What a person is shown, so that no text of a file or a model steers the terminal."""

import re
import traceback

from augur_apps.console import stderr

# C0, DEL and C1 begin every sequence a terminal obeys. Unlike in file names, other characters that
# cannot be printed alone stay: texts in many scripts need wide spaces and joiners.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown(text: str) -> str:
    r"""The text with control characters spelled out, as \x1b; newlines and tabs stay."""
    return _CONTROL_CHARACTERS.sub(lambda found: repr(found.group())[1:-1], text)


def say(text: str) -> None:
    """Tell the person something."""
    stderr.print(shown(text), style="dim", markup=False)


def say_error(message: str, *, debug: bool = False) -> None:
    """Tell what went wrong; with `debug`, under the traceback of the error at hand."""
    if debug:
        stderr.print(shown(traceback.format_exc()), end="", markup=False)
    stderr.print(shown(message), style="red", markup=False)
