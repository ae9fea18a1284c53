"""The methods of texts that a template may call, each paid for before it runs."""

import re
from typing import Any

from augur_tok.template_budget import Budget
from augur_tok.template_values import check_iterable, refused, text_of, walk

# A letter may have three in the other case.
CASES = frozenset({"capitalize", "casefold", "lower", "title", "upper"})
LETTERS_OF_A_LETTER = 3
# They match backwards, or look each character up in a text: time is the product of the lengths.
PRODUCTS = frozenset({"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"})
SEARCHES = frozenset({"count", "endswith", "find", "index", "startswith"})
CUTS = frozenset({"partition", "removeprefix", "removesuffix", "split", "splitlines"})
KINDS = ("alnum", "alpha", "ascii", "decimal", "digit", "lower", "numeric", "space", "upper")
IS_KIND = frozenset(f"is{kind}" for kind in KINDS)
TEXT_METHODS = CASES | PRODUCTS | SEARCHES | CUTS | IS_KIND | {"format", "join", "replace"}
DIGITS = 310  # before the point of the largest float, with its sign

# No widths and no attributes: a field stands for its value.
FORMAT = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*\})*+")
PERCENT = re.compile(r"(?:[^%]|%[sd%])*+")


def call_text_method(
    budget: Budget, text: str, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """text.name(*args, **named) for one of TEXT_METHODS.

    Raises:
        ChatTemplateError: it takes, or makes, too much.
    """
    budget.step()
    if name == "format":
        return _formatted(budget, text, args, named)
    given = (*args, *named.values())
    walk(budget, text, *given)
    longest = max((one for one in given if isinstance(one, str)), key=len, default="")
    budget.search(text, longest)
    if name in CASES:
        budget.new_text(LETTERS_OF_A_LETTER * len(text))
    if name in PRODUCTS:
        budget.spend(len(text) * len(longest))
    if name in ("split", "rsplit", "splitlines"):
        budget.new_list(1 + _most_cuts(text, name, args, named))
    if name == "replace" and len(args) >= 2 and all(isinstance(one, str) for one in args[:2]):
        budget.new_text(len(text) + text.count(args[0]) * len(args[1]))
    if name == "join" and args:
        budget.new_list(len(check_iterable(args[0])))
        items = list(args[0])
        lengths = sum(len(item) for item in items if isinstance(item, str))
        budget.new_text(lengths + len(items) * len(text))
        return text.join(items)
    return getattr(text, name)(*args, **named)


def percent(budget: Budget, text: str, values: Any) -> str:
    """text % values, with %s and %d alone.

    Raises:
        ChatTemplateError: there are other fields, or the result would be too large.
    """
    if not PERCENT.fullmatch(text):
        raise refused("formats by % with more than %s and %d")
    listed = values if isinstance(values, tuple) else (values,)
    shown = tuple(
        value if isinstance(value, int | float) else text_of(budget, value) for value in listed
    )
    digits = (DIGITS if isinstance(value, float) else len(str(value)) for value in shown)
    budget.new_text(len(text) + sum(digits))
    return text % shown


def _formatted(budget: Budget, text: str, args: tuple[Any, ...], named: dict[str, Any]) -> str:
    walk(budget, text)
    if not FORMAT.fullmatch(text):
        raise refused("formats with fields that are more than a name")
    texts = [text_of(budget, value) for value in args]
    named_texts = {name: text_of(budget, value) for name, value in named.items()}
    longest = max(map(len, (*texts, *named_texts.values())), default=0)
    budget.new_text(len(text) + text.count("{") * longest)
    return text.format(*texts, **named_texts)


def _most_cuts(text: str, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> int:
    if name == "splitlines":
        return len(text)
    separator = args[0] if args else named.get("sep")
    most = args[1] if len(args) > 1 else named.get("maxsplit", -1)
    # Between words there is at least one space.
    cuts = text.count(separator) if isinstance(separator, str) else len(text) // 2
    return min(cuts, most) if isinstance(most, int) and most >= 0 else cuts
