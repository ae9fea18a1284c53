"""The filters and tests that a template may use; all others are refused by name.

Those that only name a method of a text or an operator are written here, with jinja's results. Of
jinja's own are those that hand their items on to other filters and tests.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from jinja2 import Undefined, filters, pass_context, tests
from markupsafe import Markup

from augur_tok.template_budget import PIECE, Budget
from augur_tok.template_operations import compare, operate
from augur_tok.template_texts import call_text_method
from augur_tok.template_values import (
    check_iterable,
    check_number,
    refuse_marked,
    refused,
    text_of,
    unmarked,
    walk,
)

MAX_INDENT = 100
MAX_PATH = 100
MAX_DIGITS = 100

# Jinja's own.
LAZY = ("map", "reject", "rejectattr", "select", "selectattr")
TESTS = ("boolean", "defined", "false", "float", "integer", "iterable", "mapping", "none")
MORE_TESTS = ("number", "sequence", "string", "true", "undefined")
COMPARING_TESTS = {
    **dict.fromkeys(("==", "eq", "equalto"), "eq"),
    "ne": "ne",
    **dict.fromkeys(("<", "lt", "lessthan"), "lt"),
    **dict.fromkeys(("<=", "le"), "lteq"),
    **dict.fromkeys((">", "gt", "greaterthan"), "gt"),
    **dict.fromkeys((">=", "ge"), "gteq"),
    "!=": "ne",
    "in": "in",
}


def filters_within(budget: Budget) -> dict[str, Callable[..., Any]]:
    """The filters of one rendering, by name."""
    own = {name: _stepping(budget, function) for name, function in FILTERS.items()}
    return {**own, **{name: _eager(budget, name) for name in LAZY}}


def tests_within(budget: Budget) -> dict[str, Callable[..., Any]]:
    """The tests of one rendering, by name."""

    def comparing(comparison: str) -> Callable[..., bool]:
        return _stepping(budget, lambda _, left, right: compare(budget, comparison, left, right))

    def plain(test: Callable[..., bool]) -> Callable[..., bool]:
        return _stepping(budget, lambda _, value: test(value))

    def remainder(value: Any, number: Any, wanted: int) -> bool:
        return bool(operate(budget, "%", value, number) == wanted)

    known: dict[str, Any] = dict(tests.TESTS)
    return {
        **{name: plain(known[name]) for name in (*TESTS, *MORE_TESTS)},
        **{name: comparing(kind) for name, kind in COMPARING_TESTS.items()},
        "divisibleby": _stepping(budget, lambda _, value, num: remainder(value, num, 0)),
        "even": _stepping(budget, lambda _, value: remainder(value, 2, 0)),
        "odd": _stepping(budget, lambda _, value: remainder(value, 2, 1)),
    }


def counted(budget: Budget, items: Any, steps: int) -> Iterator[Any]:
    """What a loop goes through, so many steps for each item.

    Raises:
        ChatTemplateError: `items` is no plain value.
    """
    for item in check_iterable(items):
        budget.step(steps)
        yield item


def _paid(budget: Budget, items: Any) -> Iterator[Any]:
    """What a filter goes through, to make a list of as many items at most."""
    for item in counted(budget, items, 1):
        budget.new_list(1)
        yield item


def _stepping(budget: Budget, function: Callable[..., Any]) -> Callable[..., Any]:
    def stepping(*args: Any, **named: Any) -> Any:
        budget.step()
        return function(budget, *args, **named)

    return stepping


def _eager(budget: Budget, name: str) -> Callable[..., Any]:
    """One of jinja's lazy filters, giving a list: an iterator would run unseen, inside others."""
    function: Any = filters.FILTERS[name]

    @pass_context
    def eager(context: Any, value: Any, *args: Any, **named: Any) -> list[Any]:
        budget.step()
        path = named.get("attribute", args[0] if args else None)
        if isinstance(path, str) and len(path) > MAX_PATH:
            raise refused(f"maps by a name of {len(path):,} characters")
        items = _paid(budget, value) if value else value
        return list(function(context, items, *args, **named))

    return eager


def _case(method: str) -> Callable[..., Any]:
    def cased(budget: Budget, value: Any) -> Any:
        return call_text_method(budget, unmarked(budget, value), method, (), {})

    return cased


def _trim(budget: Budget, value: Any, chars: Any = None) -> Any:
    refuse_marked(chars)
    return call_text_method(budget, unmarked(budget, value), "strip", (chars,), {})


def _title(budget: Budget, value: Any) -> str:
    text = unmarked(budget, value)
    budget.new_list(len(text))  # jinja cuts it into words
    return filters.do_title(text)


def _replace(budget: Budget, value: Any, old: Any, new: Any, count: int | None = None) -> Any:
    texts = [unmarked(budget, one) for one in (value, old, new)]
    most = -1 if count is None else count
    return call_text_method(budget, texts[0], "replace", (*texts[1:], most), {})


def _join(budget: Budget, value: Any, d: Any = "") -> Any:
    texts = [text_of(budget, item) for item in _paid(budget, value)]
    return call_text_method(budget, text_of(budget, d), "join", (texts,), {})


def _list(budget: Budget, value: Any) -> list[Any]:
    return list(_paid(budget, value))


def _items(budget: Budget, value: Any) -> list[Any]:
    budget.new_list(2 * len(value) if isinstance(value, dict) else 0)
    return list(filters.do_items(value))


def _reverse(budget: Budget, value: Any) -> Any:
    if isinstance(value, str):
        budget.new_text(len(value))
        return unmarked(budget, value)[::-1]
    budget.new_list(len(check_iterable(value)))
    return list(reversed(value))


def _first(_: Budget, value: Any) -> Any:
    return next(iter(check_iterable(value)), Undefined("No first item, sequence was empty."))


def _last(_: Budget, value: Any) -> Any:
    backwards = reversed(check_iterable(value))
    return next(backwards, Undefined("No last item, sequence was empty."))


def _length(_: Budget, value: Any) -> int:
    return len(check_iterable(value))


def _default(_: Budget, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    return filters.do_default(value, default_value, boolean)


def _number(function: Callable[..., Any]) -> Callable[..., Any]:
    def number(_: Budget, value: Any, *args: Any, **named: Any) -> Any:
        if isinstance(value, str) and len(value) > MAX_DIGITS:
            raise refused(f"makes a number of {len(value):,} characters")
        return check_number(function(check_number(value), *args, **named))

    return number


def _safe(budget: Budget, value: Any) -> str:
    text = text_of(budget, value)
    budget.spend(len(text))  # it is copied
    return Markup(text)  # no HTML is written


def _to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter writes for HTML (it escapes <, > and &): models saw none of that.
    columns = len(indent) if isinstance(indent, str) else indent
    if isinstance(columns, int) and columns > MAX_INDENT:
        raise refused(f"indents JSON by {columns:,} columns")
    walk(budget, value)
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    pieces, written = [], 0
    for piece in encoder.iterencode(value):
        written += len(piece)
        budget.check_text(written)
        budget.spend(PIECE + len(piece))
        pieces.append(piece)
    return "".join(pieces)


FILTERS: dict[str, Callable[..., Any]] = {
    "abs": _number(abs),
    "capitalize": _case("capitalize"),
    "count": _length,
    "d": _default,
    "default": _default,
    "first": _first,
    "float": _number(filters.do_float),
    "int": _number(filters.do_int),
    "items": _items,
    "join": _join,
    "last": _last,
    "length": _length,
    "list": _list,
    "lower": _case("lower"),
    "replace": _replace,
    "reverse": _reverse,
    "safe": _safe,
    "string": unmarked,
    "title": _title,
    "tojson": _to_json,
    "trim": _trim,
    "upper": _case("upper"),
}
