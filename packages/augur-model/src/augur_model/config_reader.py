"""Typed reading of `config.json`: each wrong value is one error that names the key."""

import math
from collections.abc import Mapping
from typing import Any

from augur_model.errors import ConfigError

# Of a wrong value, in messages; a damaged file may hold any text.
_SHOWN_CHARACTERS = 200


class ConfigReader:
    """Reads values out of parsed JSON and checks their types.

    Args:
        values: the parsed object.
        prefix: names the place of `values` in the file, for messages.

    Raises:
        ConfigError: `values` is not an object.
    """

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        if not isinstance(values, Mapping):
            where = prefix.rstrip(".") or "config.json"
            raise ConfigError(f"{where}: found a {type(values).__name__}, expected an object")
        self._values = values
        self._prefix = prefix

    def get(self, key: str, default: Any = None) -> Any:
        """The value as it stands, unchecked."""
        return self._values.get(key, default)

    def keys(self) -> set[str]:
        """The keys that are there."""
        return set(self._values)

    def section(self, key: str) -> "ConfigReader":
        """The object under `key`."""
        return ConfigReader(self._values[key], f"{self._prefix}{key}.")

    def positive_int(self, key: str, default: int | None = None) -> int:
        """An integer above zero; a missing or null key gives `default` where there is one."""
        value = self._required(key, default)
        # bool is an int to Python, but `true` is not a size.
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise self._wrong(key, value, "a whole number above 0")
        return value

    def whole_number(self, key: str) -> int:
        """An integer, zero or above."""
        value = self._required(key, None)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._wrong(key, value, "a whole number, 0 or above")
        return value

    def positive_float(self, key: str, default: float | None = None) -> float:
        """A finite number above zero; a missing or null key gives `default` where there is one."""
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf
        if not (math.isfinite(number) and number > 0):
            raise self._wrong(key, value, "a finite number above 0")
        return number

    def boolean(self, key: str, *, default: bool) -> bool:
        """True or false; a missing or null key gives `default`."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def array(self, key: str) -> list[Any]:
        """The array under `key`; a missing or null key gives an empty one."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(key, value, "an array")
        return value

    def _required(self, key: str, default: Any) -> Any:
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            raise ConfigError(f"config.json has no {self._prefix}{key}")
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> ConfigError:
        return ConfigError(
            f"config.json: {self._prefix}{key} is {value!r:.{_SHOWN_CHARACTERS}} "
            f"({type(value).__name__}), "
            f"expected {expected}"
        )
