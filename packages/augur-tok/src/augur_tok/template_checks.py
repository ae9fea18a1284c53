"""Checks before an operation of a template that can make much out of little.

Each raises ChatTemplateError where the result, or the time for it, would be beyond the budget.
"""

import re
import string
from collections.abc import Callable
from typing import Any

from augur_tok.errors import ChatTemplateError
from augur_tok.template_budget import Budget

# They match backwards, or look each character up in a text: time is the product of the lengths.
SLOW_METHODS = frozenset({"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"})
MAX_PRODUCT = 10**9
MAX_BITS = 100_000
MAX_PLACES = 1_000
MAX_INDENT = 100
MAX_WIDTH = 9_999
WIDER = re.compile(r"\d{5}")  # than four digits
WIDTH_FROM_VALUE = re.compile(r"%[#0\- +]*(\d*\.)?\*")


def check_operator(budget: Budget, operator: str, left: Any, right: Any) -> None:
    """Before `left operator right`."""
    if operator == "%" and isinstance(left, str):
        check_percent(budget, left, right)
    elif operator == "+" and isinstance(left, str | list | tuple):
        budget.weigh(left, right)
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if isinstance(value, str | list | tuple) and isinstance(times, int):
                budget.check_size(budget.weigh(value) * times)
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() + right.bit_length())
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * right)


def check_text_method(budget: Budget, name: str, text: str, args: Any, named: Any) -> None:
    """Before text.name(...)."""
    if name in SLOW_METHODS:
        check_search(budget, text, *args, **named)
    elif name == "replace" and len(args) >= 2:
        check_replace(budget, text, *args)
    elif name == "format":
        check_format(budget, text, *args, **named)


def check_join(budget: Budget, separator: Any, items: list[Any]) -> None:
    """Before separator.join(items)."""
    budget.check_size(budget.weigh(*items) + len(items) * len(str(separator)))


def check_replace(budget: Budget, text: Any, old: Any, new: Any, *_: Any, **__: Any) -> None:
    """Before text.replace(old, new)."""
    text, old, new = str(text), str(old), str(new)
    budget.check_size(len(text) + text.count(old) * len(new))


def check_indent(budget: Budget, text: Any, width: Any = 4, *_: Any, **__: Any) -> None:
    """Before each line of a text is indented by a width, or by a text."""
    columns = len(width) if isinstance(width, str) else int(width)
    budget.check_size(len(str(text)) + (1 + str(text).count("\n")) * columns)


def check_search(_: Budget, text: Any, *rest: Any, **named: Any) -> None:
    """Before one of SLOW_METHODS, or the filter trim."""
    longest = max((len(one) for one in (*rest, *named.values()) if isinstance(one, str)), default=0)
    if longest * len(str(text)) > MAX_PRODUCT:
        raise refused("searches a long text for a long one, from its end or by its characters")


def check_sum(_: Budget, __: Any, *rest: Any, **named: Any) -> None:
    """Before the filter sum: adding lists up copies them again and again."""
    start = named.get("start", rest[1] if len(rest) > 1 else 0)
    if not isinstance(start, int | float):
        raise refused("sums up what are no numbers")


def check_round(_: Budget, __: Any, precision: Any = 0, *___: Any, **____: Any) -> None:
    """Before the filter round, which takes ten to the power of the precision."""
    if isinstance(precision, int) and precision > MAX_PLACES:
        raise refused(f"rounds to {precision:,} places")


def check_json_indent(indent: object) -> None:
    """Before the filter tojson, which indents by so many spaces, or by a text."""
    columns = len(indent) if isinstance(indent, str) else indent
    if isinstance(columns, int) and columns > MAX_INDENT:
        raise refused(f"indents JSON by {columns:,} columns")


def check_format(budget: Budget, text: Any, *values: Any, **named: Any) -> None:
    """Before text.format(...)."""
    fields = list(string.Formatter().parse(str(text)))
    for _, _, spec, _ in fields:
        if spec and ("{" in spec or WIDER.search(spec)):
            raise refused(f"formats a field as {spec[:40]!r}")
    _check_fields(budget, str(text), len(fields), values, named)


def check_percent(budget: Budget, text: Any, *values: Any, **named: Any) -> None:
    """Before text % values."""
    if WIDTH_FROM_VALUE.search(str(text)) or WIDER.search(str(text)):
        raise refused("formats to a width of five digits, or that is a value")
    _check_fields(budget, str(text), str(text).count("%"), values, named)


# What the filters of these names hand over first is the text or the value itself.
FILTER_CHECKS: dict[str, Callable[..., None]] = {
    "format": check_percent,
    "indent": check_indent,
    "replace": check_replace,
    "round": check_round,
    "sum": check_sum,
    "trim": check_search,
}


def refused(what: str) -> ChatTemplateError:
    """The error for a template that does what it cannot need."""
    return ChatTemplateError(
        f"the checkpoint's chat template {what}, which augur does not do for a template. Use "
        "another checkpoint's tokenizer files, or raw text."
    )


def _check_fields(budget: Budget, text: str, fields: int, values: Any, named: Any) -> None:
    given = budget.weigh(*values, *named.values())
    budget.check_size(len(text) + fields * (given + MAX_WIDTH))


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise refused(f"computes a number of {bits:,} bits")
