"""What one rendering of a chat template may take: steps, characters, memory, time.

A template is a program that came with the weights, from anyone. Jinja's sandbox keeps it away from
Python's internals, but not from an endless loop or a text of a terabyte: that is kept here. All
bounds but the last are counted, so that a template is taken or refused alike on every machine.
"""

import time
from collections.abc import Callable

from augur_tok.errors import ChatTemplateError

# Qwen's templates take some hundred steps and write a hundred characters for each message.
STEPS = 1_000_000
CHARACTERS = 20_000_000
LARGEST_TEXT = 1_000_000
SECONDS = 20.0

# And so much more for each character that is handed in, since templates copy what they are given.
STEPS_EACH = 10
CHARACTERS_EACH = 500
LARGEST_TEXT_EACH = 10

# What the call of a macro costs beside its body.
MACRO_CALL = 10
# A turn of a loop and a macro's body take a step, and another for so many parts of the template
# in it (names, constants, operators, ...).
NODES_OF_A_STEP = 2
# A macro that is made in a loop or a macro counts as so many parts: it takes as much memory.
MACRO = 20
# What an item of a new list, and a piece of output or a value that is looked at, cost beside their
# text, in characters: about the bytes that Python takes for them.
ITEM = 64
PIECE = 16
# Texts of which one is this short may be compared at each place; so many comparisons take about as
# long as a character that is paid for.
LONGEST_COMPARED = 2_500
COMPARED_AT_ONCE = 64


class Budget:
    """Counts what a rendering takes, and ends it at the limit."""

    def __init__(self, given: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`given` is the weight of what the template is handed; `clock` gives seconds."""
        self._steps = STEPS + STEPS_EACH * given
        self._characters = CHARACTERS + CHARACTERS_EACH * given
        self._largest_text = LARGEST_TEXT + LARGEST_TEXT_EACH * given
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
        """So many characters are about to be read, written or copied.

        Raises:
            ChatTemplateError: too many in all.
        """
        self._characters -= characters
        if self._characters < 0:
            raise _beyond("writes and copies more text than a chat of this length can need")

    def check_text(self, characters: int) -> None:
        """A text of so many characters is about to be made, or to be written another way.

        Raises:
            ChatTemplateError: it is too large.
        """
        if characters > self._largest_text:
            raise _beyond(
                f"makes a text of {characters:,} characters or more; for a chat of this length "
                f"{self._largest_text:,} are ample"
            )

    def new_text(self, characters: int) -> None:
        """`check_text` and `spend` for a text that is about to be made."""
        self.check_text(characters)
        self.spend(characters)

    def search(self, text: str, wanted: str) -> None:
        """A text is about to be looked for in another.

        Python may compare it at each place, if one of the two is short; else time is linear.

        Raises:
            ChatTemplateError: too much was read in all.
        """
        self.spend(len(text) * min(len(wanted), LONGEST_COMPARED) // COMPARED_AT_ONCE)

    def new_list(self, items: int) -> None:
        """`spend` for a list, tuple or dict of so many items that is about to be made."""
        self.spend(ITEM * items)


def weight(value: object) -> int:
    """Characters and items in plain values that hold no cycle: what a template is handed."""
    if isinstance(value, str):
        return 1 + len(value)
    if isinstance(value, dict):
        return 1 + sum(weight(key) + weight(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(map(weight, value))
    return 1


def _beyond(what: str) -> ChatTemplateError:
    return ChatTemplateError(
        f"the checkpoint's chat template {what}. It may hold an endless loop: use another "
        "checkpoint's tokenizer files, or raw text."
    )
