"""Typed reading of `config.json`: each wrong value is one error that names the key."""

import math
from collections.abc import Mapping
from typing import Any

from augur_model.errors import ConfigError

# Of a wrong value, in messages; a damaged file may hold any text.
_SHOWN_CHARACTERS = 200

# No size comes near; beyond it, messages and arithmetic would have hundreds of digits.
_MOST = 2**63 - 1


_REMEDY = "Correct config.json, or fetch it again from where the model came"


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
            raise ConfigError(
                f"{where}: found a {type(values).__name__}, expected an object ({{...}}). {_REMEDY}"
            )
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

    def whole_number(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = _MOST
    ) -> int:
        """From `least`, 0 or 1, to `most`; a missing or null key gives any `default`."""
        expected = "a whole number above 0" if least else "a whole number, 0 or above"
        value = self._required(key, default, expected)
        # bool is an int to Python, but `true` is not a size.
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._wrong(key, value, expected)
        if value > most:
            raise self._out_of_range(key, value, f"at most {most}")
        return value

    def number(self, key: str, low: float, high: float, *, default: float | None = None) -> float:
        """From `low`, above 0, to `high`; a missing or null key gives `default` if there is one."""
        value = self._required(key, default, "a finite number above 0")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        try:
            number = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf
        if not (math.isfinite(number) and number > 0):
            raise self._wrong(key, value, "a finite number above 0")
        if not low <= number <= high:
            raise self._out_of_range(key, number, f"{low:g} to {high:g}")
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

    def error(self, what: str) -> ConfigError:
        """An error about the file: what is wrong, and what to do."""
        return ConfigError(f"config.json {what}. {_REMEDY}")

    def _required(self, key: str, default: Any, expected: str) -> Any:
        value = self._values.get(key)
        if value is None:
            value = default
        if value is None:
            raise self.error(f"has no {self._prefix}{key}, expected {expected}")
        return value

    def _wrong(self, key: str, value: Any, expected: str) -> ConfigError:
        return self._not(key, f"{_shown(value)} ({type(value).__name__})", expected)

    def _out_of_range(self, key: str, value: float, expected: str) -> ConfigError:
        return self._not(key, _shown(value), expected)

    def _not(self, key: str, found: str, expected: str) -> ConfigError:
        return ConfigError(
            f"config.json: {self._prefix}{key} is {found}, expected {expected}. {_REMEDY}"
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
