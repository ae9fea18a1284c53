"""Strings that end a text, wherever the pieces of the text are cut."""

from collections.abc import Iterable
from itertools import compress

from augur_gen.errors import ArgumentError, GenerationError


class StopStrings:
    """Pieces of text in, the text before the first stop string out.

    The first is the one that ends first; of several that end together, the one that begins first.
    How the text is cut into pieces makes no difference. What may be the beginning of a stop string
    is held back until it is known not to be; the rest is released at once. Hidden text, that of a
    special token which is not shown, counts for the stop strings and is never released.

    Args:
        strings: any of them ends the text; none at all lets everything through.

    Attributes:
        found: the stop string that was met; None until then.

    Raises:
        ArgumentError: one of them is empty, no string, or has a lone surrogate.
    """

    def __init__(self, strings: Iterable[str] = ()) -> None:
        if isinstance(strings, str):
            raise ArgumentError(
                "{stop_strings} is %r, expected a list of strings: [%r]", strings, strings
            )
        self._strings = tuple(strings)
        for string in self._strings:
            if not isinstance(string, str) or not string:
                raise ArgumentError(
                    "{stop_strings} has %r, expected strings of at least one character", string
                )
            if any("\ud800" <= character <= "\udfff" for character in string):
                raise ArgumentError(
                    "{stop_strings} has %r, expected characters that UTF-8 has: it holds a lone "
                    "surrogate, which no text does",
                    string,
                )
        self._longest = max(map(len, self._strings), default=0)
        self._held = ""
        self._held_shown: list[bool] = []  # of each character held, whether it is to be released
        self._is_finished = False
        self.found: str | None = None

    def push(self, piece: str, *, hidden: bool = False) -> str:
        """Add a piece of text, and take what is certain to come before any stop string.

        Args:
            piece: comes after all that was pushed before.
            hidden: whether it is looked at and not released.

        Returns:
            "" where nothing is, and always once a stop string was found.

        Raises:
            GenerationError: the text is finished.
        """
        if self._is_finished:
            raise GenerationError("this text is finished; take a new StopStrings for another")
        if self.found is not None:
            return ""
        text, shown = self._held + piece, self._held_shown + [not hidden] * len(piece)
        ends = ((text.find(string) + len(string), string) for string in self._strings)
        matches = [(end, end - len(string), string) for end, string in ends if end >= len(string)]
        if matches:
            _, start, self.found = min(matches)
            self._held, self._held_shown = "", []
        else:
            start = self._start_of_partial_match(text)
            self._held, self._held_shown = text[start:], shown[start:]
        return "".join(compress(text[:start], shown))

    def finish(self) -> str:
        """End the text, and take what was held back: no stop string came of it."""
        self._is_finished = True
        released = "".join(compress(self._held, self._held_shown))
        self._held, self._held_shown = "", []
        return released

    def _start_of_partial_match(self, text: str) -> int:
        """Where the longest end of `text` begins that a stop string begins with."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            tail = text[start:]
            if any(string.startswith(tail) for string in self._strings):
                return start
        return len(text)
