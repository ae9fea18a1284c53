"""A dict for a frozen dataclass."""

from typing import Any, NoReturn, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class ReadOnlyDict(dict[Key, Value]):
    """A dict that stays as it was made.

    Unlike `types.MappingProxyType` it can be pickled, copied deeply and written as JSON, so
    `dataclasses.asdict` and `replace` take it. It has no hash, as no dict has.

    Raises:
        TypeError: on every change.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("it cannot be changed; make another, with dataclasses.replace, say")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling a dict would set item after item.
        return type(self), (dict(self),)
