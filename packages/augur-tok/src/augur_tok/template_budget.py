"""What one rendering of a chat template may take: steps, characters, memory, time.

A template is a program that came with the weights, from anyone. Jinja's sandbox keeps it away from
Python's internals, but not from an endless loop or a text of a terabyte: that is kept here. All
bounds but the last are counted, so that a template is taken or refused alike on every machine.
"""

import time
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView

from augur_tok.errors import ChatTemplateError

# Qwen's templates take about ten steps and write a hundred characters for each message.
STEPS = 1_000_000
CHARACTERS = 20_000_000
LARGEST_VALUE = 2_000_000
SECONDS = 20.0

# And so much more for each character that is handed in, since templates copy what they are given.
STEPS_EACH = 10
CHARACTERS_EACH = 1_000
LARGEST_VALUE_EACH = 10

# What the call of a macro costs, in turns of a loop.
MACRO_CALL = 10
# What an item of a list and a piece of output cost beside their text, in characters: about the
# bytes that Python takes for them.
ITEM = 64
PIECE = 16

CONTAINERS = (list, tuple, dict, set, KeysView, ValuesView, ItemsView)


class Budget:
    """Counts what a rendering takes, and ends it at the limit."""

    def __init__(self, given: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`given` is the weight of what the template is handed; `clock` gives seconds."""
        self._steps = STEPS + STEPS_EACH * given
        self._characters = CHARACTERS + CHARACTERS_EACH * given
        self._largest_value = LARGEST_VALUE + LARGEST_VALUE_EACH * given
        self._clock = clock
        self._end_s = clock() + SECONDS

    def step(self, steps: int = 1) -> None:
        """One turn of a loop or one call, which take about as long as so many steps.

        Raises:
            ChatTemplateError: there were too many, or they took too long.
        """
        self._steps -= steps
        if self._steps < 0:
            raise _beyond("takes more steps than a chat of this length can need")
        if self._clock() > self._end_s:
            raise _beyond(f"takes longer than {SECONDS:.0f} s")

    def spend(self, characters: int) -> None:
        """So many characters were written or copied.

        Raises:
            ChatTemplateError: too many in all.
        """
        self._characters -= characters
        if self._characters < 0:
            raise _beyond("writes and copies more text than a chat of this length can need")

    def check_size(self, size: int) -> None:
        """A value of so many characters and items is about to be made.

        Raises:
            ChatTemplateError: it is too large.
        """
        if size > self._largest_value:
            raise _beyond(
                f"makes a value of {size:,} characters or more; for a chat of this length "
                f"{self._largest_value:,} are ample"
            )

    def weigh(self, *values: object) -> int:
        """`weight` of all values together, at most just beyond the largest value.

        Raises:
            ChatTemplateError: they are larger than a value may be.
        """
        total = 0
        for size in _sizes(values):
            total += size
            self.check_size(total)
        return total


def weight(*values: object) -> int:
    """Characters and items in plain values, each counted as often as it would be printed."""
    return sum(_sizes(values))


def _sizes(values: tuple[object, ...]) -> Iterator[int]:
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield 1 + len(value)
        elif isinstance(value, int):
            yield 1 + value.bit_length() // 3  # about its digits
        elif isinstance(value, CONTAINERS):
            yield 1 + len(value)
            waiting += value
            if isinstance(value, dict):
                waiting += value.values()
        else:
            yield 1


def _beyond(what: str) -> ChatTemplateError:
    return ChatTemplateError(
        f"the checkpoint's chat template {what}. It may hold an endless loop: use another "
        "checkpoint's tokenizer files, or raw text."
    )
