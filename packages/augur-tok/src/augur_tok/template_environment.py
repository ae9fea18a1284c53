"""Jinja as chats are rendered in it: with transformers' settings, and as much of it as chats use.

What is on no list here is refused: parts of the language, filters, tests, functions, attributes.
This runs where `template_child` does, and so it imports jinja and the standard library alone.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

PARTS = (
    "Template Output TemplateData For If Macro Assign AssignBlock NSRef With Scope Break Continue "
    "Name Const Tuple List Dict Pair Keyword CondExpr Filter Test Call Getitem Getattr Slice "
    "Concat Compare Operand Add Sub Mul Div FloorDiv Mod Pow And Or Not Neg Pos"
)
OWN_NAMES = ("self", "super", "caller")  # jinja's, by which a template would reach its blocks
FILTER_NAMES = (
    "abs capitalize count d default dictsort first float int items join last length list lower map "
    "max min reject rejectattr replace reverse safe select selectattr sort string title trim upper"
)
TEST_NAMES = (
    "!= < <= == > >= boolean defined divisibleby eq equalto even false float ge greaterthan gt "
    "integer iterable le lessthan lt mapping ne none number odd sequence string true undefined"
)
# By exact type: what derives from one of them has methods that nobody has looked at.
ATTRIBUTES = {
    str: "capitalize casefold count endswith find format index isalnum isalpha isascii isdecimal "
    "isdigit islower isnumeric isspace isupper join lower lstrip partition removeprefix "
    "removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip "
    "title upper",
    dict: "get items keys values",
    LoopContext: "cycle depth depth0 first index index0 last length nextitem previtem revindex "
    "revindex0",
}
JSON_OPTIONS = ("ensure_ascii", "indent", "separators", "sort_keys")  # in transformers' order
PRINTED = (str, int, float, type(None), list, tuple, dict, range, Undefined)
PERCENT = re.compile(r"(?:[^%]|%[sd%])*+")  # no widths: they are gigabytes in a few letters
BITS = 64  # of a number
COMPARED = 64  # pairs of characters or items, which take as long as a character that is written


class RefusedError(BaseException):
    """A template does what no chat needs; no Exception, which jinja may take for one of its own."""


class GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`, around what training code takes for the model's."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        """Jinja's hook: the statement that stands for the tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """One rendering's, in which no text or list, nor all that is written, exceeds `largest`."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self, largest: int) -> None:
        tags = [GenerationTag, loopcontrols]
        # Not optimised: constants would be worked out while compiling.
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=tags, optimized=False)
        self.finalize = pass_context(lambda _, value: self._written(value))
        self._largest = self._left = largest
        self.filters = {name: self._within(FILTERS[name]) for name in FILTER_NAMES.split()}
        self.filters["tojson"] = self._within(_to_json)
        self.tests = {name: TESTS[name] for name in TEST_NAMES.split()} | {"in": self._contained}
        self.globals = {
            "dict": partial(dict),
            "namespace": partial(Namespace),
            "raise_exception": _raise_exception,
            "range": safe_range,
        }

    def parsed(self, source: str) -> nodes.Template:
        """The template's parts; a TemplateSyntaxError if one of them is on no list here."""
        tree = self.parse(source)
        for node in (tree, *tree.find_all(nodes.Node)):
            if fault := _fault(node):
                raise TemplateSyntaxError(f"{fault} is not supported", node.lineno)
        _Hooks().visit(tree)
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002
        """The sandbox's hook: whether a template may take an attribute."""
        own = type(obj) is Namespace and attr[:1] != "_"
        return own or attr in ATTRIBUTES.get(type(obj), "").split()

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        """The sandbox's hook for an attribute that it may not take."""
        raise RefusedError(f"reads {attribute[:99]!r} of a {type(obj).__name__}, which is unsafe")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The sandbox's hook for arithmetic."""
        for value, times in ((left, right), (right, left)):
            if operator == "*" and isinstance(times, int) and isinstance(value, str | list | tuple):
                self._checked(None, len(value) * times)
        if operator == "**" and isinstance(right, int) and right > BITS:
            raise RefusedError(f"takes a power of {right:,}")
        if operator == "%" and isinstance(left, str) and not PERCENT.fullmatch(left):
            raise RefusedError("formats by % with more than %s and %d")
        return self._checked(super().call_binop(context, operator, left, right))

    def _contained(self, value: Any, container: Any) -> bool:
        each = len(value) if isinstance(value, str) else 1
        self._spend(0 if isinstance(container, dict) else len(container) * each // COMPARED)
        return value in container

    def _written(self, value: Any) -> str:
        self._look(self._checked(value))
        self._spend(len(text := str(value)))
        return text

    def _look(self, value: Any) -> None:
        """Pays for each value in a value: one list may be in another a thousand times."""
        if not isinstance(value, PRINTED):
            raise RefusedError(f"prints a {type(value).__name__}")
        self._spend(1)
        for part in value if isinstance(value, list | tuple | dict) else ():
            self._look(part)
            self._look(value[part] if isinstance(value, dict) else None)

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise RefusedError(f"writes, or looks through, more than {self._largest:,} characters")

    def _checked(self, value: Any, size: int = 0) -> Any:
        if isinstance(value, complex) or (isinstance(value, int) and value.bit_length() > BITS):
            raise RefusedError(f"computes with a number beyond {BITS} bits")
        size = len(value) if isinstance(value, str | list | tuple) else size
        if size > self._largest:
            raise RefusedError(f"makes a text or list of {size:,}; {self._largest:,} are ample")
        return value

    def _within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)  # with jinja's marks, which say whether it takes the context
        def within(*args: Any, **named: Any) -> Any:
            made = function(*args, **named)
            return self._checked(list(made) if isinstance(made, Iterator) else made)

        return within


class _Hooks(NodeTransformer):
    """Makes literal text a constant, which `finalize` writes, and `in` the test of that name."""

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802
        return nodes.Const(node.data, lineno=node.lineno)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        operator, right = node.ops[0].op, node.ops[0].expr
        if len(node.ops) > 1 or operator not in ("in", "notin"):
            return node
        test = nodes.Test(node.expr, "in", [right], [], None, None, lineno=node.lineno)
        return test if operator == "in" else nodes.Not(test, lineno=node.lineno)


def _fault(node: Any) -> str:
    """What about a part of a template is not supported; "" for none."""
    kind = type(node).__name__
    children = [one.name for one in node.iter_child_nodes() if isinstance(one, nodes.Name)]
    faults = {
        kind: kind not in PARTS.split(),
        "a name of jinja's own": kind == "Name" and node.name in OWN_NAMES,
        "a loop as a value": "loop" in children and kind != "Getattr",
        "a recursive loop": getattr(node, "recursive", False),
        "an argument by *": getattr(node, "dyn_args", None) or getattr(node, "dyn_kwargs", None),
        "a computed key": kind == "Pair" and not isinstance(node.key, nodes.Const),
    }
    return next((fault for fault, found in faults.items() if found), "")


def _to_json(value: Any, *args: Any, **named: Any) -> str:
    # transformers' filter; jinja's own writes for HTML (it escapes <, > and &).
    options = {"ensure_ascii": False, **dict(zip(JSON_OPTIONS, args, strict=False)), **named}
    if not options.keys() <= set(JSON_OPTIONS):
        raise TypeError(f"tojson takes {', '.join(JSON_OPTIONS)}")
    return json.dumps(value, **options)


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))
