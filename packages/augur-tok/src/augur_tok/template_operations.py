"""What a template may do with values.

Only what is listed here is there: a filter or a method whose cost nobody has looked at is refused
by name. `template_checks` looks at those that can make much out of little.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from augur_tok.template_checks import refused

# Their result is about as large as what they are given, or is checked.
TEXT_FILTERS = (
    "capitalize",
    "e",
    "escape",
    "format",
    "indent",
    "lower",
    "replace",
    "safe",
    "string",
)
MORE_TEXT_FILTERS = ("title", "trim", "truncate", "upper", "wordcount")
NUMBER_FILTERS = ("abs", "float", "int", "max", "min", "round", "sum")
LIST_FILTERS = ("dictsort", "first", "groupby", "join", "last", "list", "reverse", "sort")
OTHER_FILTERS = ("attr", "count", "d", "default", "length")
FILTERS = TEXT_FILTERS + MORE_TEXT_FILTERS + NUMBER_FILTERS + LIST_FILTERS + OTHER_FILTERS
# They give an iterator, which draws its items when it is asked.
LAZY_FILTERS = ("items", "map", "reject", "rejectattr", "select", "selectattr", "unique")

GLOBALS = ("cycler", "dict", "joiner")

CASES = {"capitalize", "casefold", "lower", "swapcase", "title", "upper"}
SEARCHES = {"count", "endswith", "find", "index", "rfind", "rindex", "startswith"}
CUTS = {"lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit", "rstrip"}
MORE_CUTS = {"split", "splitlines", "strip"}
KINDS = {"alnum", "alpha", "ascii", "decimal", "digit", "identifier", "lower", "numeric"}
MORE_KINDS = {"printable", "space", "title", "upper"}
IS_KIND = {f"is{kind}" for kind in KINDS | MORE_KINDS}

# By type, the first that fits.
ATTRIBUTES: dict[type, frozenset[str]] = {
    str: frozenset(CASES | SEARCHES | CUTS | MORE_CUTS | IS_KIND | {"format", "join", "replace"}),
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "grouper", "index", "list"}),  # two of them are groupby's
    range: frozenset({"count", "index"}),
    int: frozenset({"is_integer"}),
    float: frozenset({"is_integer"}),
    type({}.keys()): frozenset(),
    type({}.values()): frozenset(),
    type({}.items()): frozenset(),
}

# Python's own stack, which such nests use, ends long before memory does.
MAX_NESTED_ITERATORS = 100


class LazyItems:
    """What a lazy filter gives, knowing how many others it draws from."""

    def __init__(self, items: Iterable[Any], source: object) -> None:
        """`items` are the filter's, made from `source`."""
        self._items = iter(items)
        self._nested: int = 1 + (source._nested if isinstance(source, LazyItems) else 0)
        if self._nested > MAX_NESTED_ITERATORS:
            raise refused(f"nests more than {MAX_NESTED_ITERATORS} filters such as map")

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._items)


def is_allowed(value: object, attribute: str) -> bool:
    """Whether a template may take this attribute of a plain value; of others it is not asked."""
    for kind, allowed in ATTRIBUTES.items():
        if isinstance(value, kind):
            return attribute in allowed
    return True
