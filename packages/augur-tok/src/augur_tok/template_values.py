"""The values that a template works with, and what it costs to look at all of one.

They are JSON's types, tuples, ranges and jinja's Undefined. None of them can be changed, so that
none holds itself; but one may stand in another many times over, and a short template can make
lists that would print as terabytes. So whoever walks through a value pays as it goes.
"""

from typing import Any

from jinja2 import Undefined
from markupsafe import Markup

from augur_tok.errors import ChatTemplateError
from augur_tok.template_budget import PIECE, Budget

MAX_DEPTH = 100  # of lists in lists; what is handed in is nested up to 64 deep
BITS = 64

SCALARS = (str, int, float, type(None), Undefined)
ITERABLES = (str, list, tuple, dict, range, Undefined)


def refused(what: str) -> ChatTemplateError:
    """The error for a template that does what it cannot need."""
    return ChatTemplateError(
        f"the checkpoint's chat template {what}, which augur does not do for a template. Use "
        "another checkpoint's tokenizer files, or raw text."
    )


def walk(budget: Budget, *values: object) -> None:
    """Pays for looking at every value in these values.

    Raises:
        ChatTemplateError: there are too many, a text is too large, or they are nested too deeply.
    """
    for value in values:
        _walk(budget, value, 0)


def text_of(budget: Budget, value: object) -> str:
    """What str(value) gives, paid for piece by piece.

    Raises:
        ChatTemplateError: it is too large, or a value is of a kind that is not printed.
    """
    if isinstance(value, Markup):
        budget.spend(len(value))  # str copies it
    if isinstance(value, str | Undefined):
        return str(value)
    pieces: list[str] = []
    _Writer(budget, pieces).write(value, 0)
    return "".join(pieces)


def unmarked(budget: Budget, value: object) -> str:
    """`text_of`, but text that was marked as safe is refused: joined to other text, it escapes it.

    Raises:
        ChatTemplateError: as `text_of`, or the value was marked.
    """
    refuse_marked(value)
    return text_of(budget, value)


def refuse_marked(*values: object) -> None:
    """Text from the filter `safe` can be written and joined by `~`, and nothing else.

    Raises:
        ChatTemplateError: a value is such a text.
    """
    if any(isinstance(value, Markup) for value in values):
        raise refused("goes on working with a text that it marked as safe")


def check_key(budget: Budget, key: object) -> None:
    """Before a key is looked up, which takes its hash and compares it.

    Raises:
        ChatTemplateError: it is no text, number or None.
    """
    if not isinstance(key, SCALARS):
        raise refused(f"takes a {type(key).__name__} for a key")
    if isinstance(key, str):
        budget.spend(len(key))


def check_number(value: Any) -> Any:
    """The value itself, unless it is a number with more bits than computers' own have.

    Raises:
        ChatTemplateError: it is.
    """
    if isinstance(value, int) and value.bit_length() > BITS:
        raise refused(f"computes with a number of {value.bit_length():,} bits")
    if isinstance(value, complex):
        raise refused("computes a complex number")
    return value


def check_iterable(value: Any) -> Any:
    """The value itself, if it is one that may be gone through; None and numbers fail by themselves.

    Raises:
        ChatTemplateError: it is not of a listed type.
    """
    if not isinstance(value, (*ITERABLES, *SCALARS)):
        raise refused(f"goes through a {type(value).__name__}")
    return value


def _walk(budget: Budget, value: object, depth: int) -> None:
    if isinstance(value, str):
        budget.check_text(len(value))
        budget.spend(len(value))
    elif isinstance(value, list | tuple | dict):
        _check_depth(depth)
        budget.spend(PIECE * len(value))
        for item in value:
            _walk(budget, item, depth + 1)
        if isinstance(value, dict):
            for item in value.values():
                _walk(budget, item, depth + 1)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise refused(f"nests lists more than {MAX_DEPTH} deep")


class _Writer:
    """Writes plain values as Python does, into a list of pieces."""

    def __init__(self, budget: Budget, pieces: list[str]) -> None:
        self._budget = budget
        self._pieces = pieces
        self._written = 0

    def write(self, value: object, depth: int) -> None:
        if isinstance(value, str):
            self._budget.check_text(len(value))  # written, it may be ten times as long
            self._put(repr(value))
        elif isinstance(value, (range, *SCALARS)):
            self._put(repr(value))
        elif isinstance(value, list | tuple):
            _check_depth(depth)
            single = "(", ",)" if len(value) == 1 else ")"
            opening, closing = ("[", "]") if isinstance(value, list) else single
            self._put(opening)
            for place, item in enumerate(value):
                if place:
                    self._put(", ")
                self.write(item, depth + 1)
            self._put(closing)
        elif isinstance(value, dict):
            _check_depth(depth)
            self._put("{")
            for place, (key, item) in enumerate(value.items()):
                if place:
                    self._put(", ")
                self.write(key, depth + 1)
                self._put(": ")
                self.write(item, depth + 1)
            self._put("}")
        else:
            raise refused(f"prints a {type(value).__name__}")

    def _put(self, piece: str) -> None:
        self._written += len(piece)
        self._budget.check_text(self._written)
        self._budget.spend(PIECE + len(piece))
        self._pieces.append(piece)
