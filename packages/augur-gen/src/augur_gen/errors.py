"""What augur-gen raises. Catch `GenerationError` for all of it."""

from collections.abc import Callable
from typing import Any


class GenerationError(ValueError):
    """Root of this package's errors."""


class CacheFullError(GenerationError):
    """More tokens than a cache has room for; nothing was written."""


class ArgumentError(GenerationError):
    """An argument with a wrong value, or one that does not go with another.

    The message has the arguments' names in Python. A program whose users know them by others, such
    as options of a command line, writes it anew with `spelled`.

    Args:
        template: the message: arguments' names in braces, and %-formats for `values`.
        values: what was found and expected, whatever they hold.
    """

    def __init__(self, template: str, *values: object) -> None:
        self.template, self.values = template, values
        super().__init__(self.spelled(str))

    def spelled(self, spell: Callable[[str], str]) -> str:
        """The message with each argument's name as `spell` writes it."""
        return self.template.format_map(_Names(spell)) % self.values

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.template, *self.values)  # else a copy would lose the names


class _Names(dict[str, str]):
    def __init__(self, spell: Callable[[str], str]) -> None:
        super().__init__()
        self._spell = spell

    def __missing__(self, name: str) -> str:
        return self._spell(name)
