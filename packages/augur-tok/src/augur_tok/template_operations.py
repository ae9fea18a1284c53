"""What a template may do with values: operators, comparisons, attributes.

Only what is listed here is there. It is refused, or paid for, before it runs.
"""

import operator
from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any

from jinja2.runtime import LoopContext
from jinja2.utils import Namespace

from augur_tok.template_budget import Budget
from augur_tok.template_texts import TEXT_METHODS, call_text_method, percent
from augur_tok.template_values import (
    SCALARS,
    check_key,
    check_number,
    refuse_marked,
    refused,
    walk,
)

DICT_METHODS = frozenset({"get", "items", "keys", "values"})
PLACES = frozenset({"depth", "depth0", "index", "index0", "revindex", "revindex0"})
NEIGHBOURS = frozenset({"first", "last", "length", "nextitem", "previtem"})

# By exact type: what derives from one of them has methods that nobody has looked at.
ATTRIBUTES: dict[type, frozenset[str]] = {
    str: TEXT_METHODS,
    dict: DICT_METHODS,
    LoopContext: PLACES | NEIGHBOURS | {"cycle"},
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
CONTAINERS = (list, tuple, dict)
MAX_POWER = 64


def is_allowed(value: object, attribute: str) -> bool:
    """Whether a template may take this attribute of a value; of what is not listed, none."""
    if type(value) is Namespace:
        return True  # it holds what the template put there
    return attribute in ATTRIBUTES.get(type(value), ())


def call_method(
    budget: Budget, method: BuiltinMethodType, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """A method of a text or a dict, as `is_allowed` let it through.

    Raises:
        ChatTemplateError: it takes, or makes, too much, or is of something else.
    """
    owner, name = method.__self__, method.__name__
    if type(owner) is str and name in TEXT_METHODS:
        refuse_marked(*args, *named.values())
        return call_text_method(budget, owner, name, args, named)
    if type(owner) is not dict or name not in DICT_METHODS:
        raise refused(f"calls a {name} that is no method of a text or a dict")
    if name == "get":
        check_key(budget, args[0] if args else None)
        return method(*args, **named)
    budget.new_list(2 * len(owner))
    return list(method(*args, **named))  # views would be values of a further kind


def operate(budget: Budget, symbol: str, left: Any, right: Any) -> Any:
    """`left symbol right` for one of BINARY.

    Raises:
        ChatTemplateError: the result would be too large.
    """
    refuse_marked(left, right)
    check_number(left)
    check_number(right)
    if symbol == "%" and isinstance(left, str):
        return percent(budget, left, right)
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        budget.new_text(len(left) + len(right))
    elif symbol == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.new_list(len(left) + len(right))
    elif symbol == "*":
        _pay_for_repetition(budget, left, right)
        _pay_for_repetition(budget, right, left)
    elif symbol == "**" and isinstance(right, int) and right > MAX_POWER:
        raise refused(f"takes a power of {right:,}")
    return check_number(BINARY[symbol](left, right))


def compare(budget: Budget, comparison: str, left: Any, right: Any) -> bool:
    """`left comparison right` for one of COMPARISONS.

    Raises:
        ChatTemplateError: the two are too large to be compared once more.
    """
    if comparison in ("in", "notin"):
        _pay_for_search(budget, left, right)
    elif isinstance(left, str) and isinstance(right, str):
        budget.spend(min(len(left), len(right)))
    elif isinstance(left, CONTAINERS) and isinstance(right, CONTAINERS):
        walk(budget, left, right)
    return bool(COMPARISONS[comparison](left, right))


def _pay_for_repetition(budget: Budget, value: Any, times: Any) -> None:
    if not isinstance(times, int) or times < 0:
        return
    if isinstance(value, str):
        budget.new_text(len(value) * times)
    elif isinstance(value, list | tuple):
        budget.new_list(len(value) * times)


def _pay_for_search(budget: Budget, left: Any, right: Any) -> None:
    if isinstance(right, dict):
        check_key(budget, left)
    elif isinstance(right, range):
        budget.spend(1 if isinstance(left, int) else len(right))
    elif isinstance(right, str | list | tuple):
        walk(budget, left, right)
        if isinstance(left, str) and isinstance(right, str):
            budget.search(right, left)
    elif not isinstance(right, SCALARS):
        raise refused(f"looks for something in a {type(right).__name__}")
