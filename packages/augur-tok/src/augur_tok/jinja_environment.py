"""The Jinja environment in which one chat is rendered: transformers' settings, within bounds."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import CodeType
from typing import Any, NamedTuple, NoReturn

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.defaults import DEFAULT_NAMESPACE
from jinja2.ext import loopcontrols
from jinja2.filters import FILTERS as JINJAS_FILTERS
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from augur_tok.generation_tag import GenerationTag
from augur_tok.template_budget import ITEM, MACRO_CALL, PIECE, Budget
from augur_tok.template_checks import (
    FILTER_CHECKS,
    check_format,
    check_join,
    check_json_indent,
    check_operator,
    check_text_method,
)
from augur_tok.template_hooks import add_hooks, literal_characters
from augur_tok.template_operations import (
    FILTERS,
    GLOBALS,
    LAZY_FILTERS,
    LazyItems,
    is_allowed,
)

# What jinja hands to every call beside the template's own arguments.
_SCOPES = frozenset({"_loop_vars", "_block_vars"})


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one rendering; the settings decide where a template's spaces go.

    A template comes with the weights, from anyone. Jinja's sandbox lets it read what it is given
    and nothing else; the budget, spent in what is overridden here, ends what does not end itself.
    `strftime_now`, which reads the clock, is not here: the caller hands it in.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, budget: Budget) -> None:
        # Not optimised: constants would be computed while compiling, unseen by the budget.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationTag, loopcontrols],
            finalize=_written,
            optimized=False,
        )
        self.budget = budget
        self._literals = 0
        self.filters = {
            **{name: self._bounded(name) for name in (*FILTERS, *LAZY_FILTERS)},
            "tojson": self._to_json,
        }
        self.globals = {
            **{name: DEFAULT_NAMESPACE[name] for name in GLOBALS},
            "namespace": _Namespace,
            "raise_exception": _raise_exception,
            "range": self.globals["range"],  # the sandbox's, of limited length
        }

    def compiled(self, tree: nodes.Template) -> "CompiledTemplate":
        """A parsed template compiled, for any environment of this class; the tree is changed."""
        literals = literal_characters(tree)
        add_hooks(tree)
        return CompiledTemplate(self.compile(tree), literals)

    def render(self, template: "CompiledTemplate", context: Mapping[str, Any]) -> str:
        """The text that a template writes; what it takes is taken from this budget."""
        self._literals = template.literals
        rendering = Template.from_code(self, template.code, self.make_globals(None))
        return rendering.render(context)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """The sandbox's hook: whether a template may take an attribute."""
        return super().is_safe_attribute(obj, attr, value) and is_allowed(obj, attr)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The sandbox's hook: str.format, for which it has a function of its own."""
        formatted = super().wrap_str_format(value)
        if formatted is None or value.__name__ != "format":
            return None  # format_map is then asked for as any attribute, and refused

        def checked(*args: Any, **named: Any) -> str:
            check_format(self.budget, value.__self__, *args, **named)
            return formatted(*args, **named)

        return checked

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The sandbox's hook for operators."""
        check_operator(self.budget, operator, left, right)
        return self.copied(super().call_binop(context, operator, left, right))

    def call(self, context: Context, function: Any, /, *args: Any, **named: Any) -> Any:
        """The sandbox's hook for calls: of methods, globals, macros and of the hooks below."""
        owner = getattr(function, "__self__", None)
        if owner is self:
            return function(*args)
        self.budget.step()
        if isinstance(function, Macro | BlockReference | LoopContext):
            self.budget.step(MACRO_CALL)
            self.budget.spend(self._literals)
        if isinstance(function, LoopContext):  # a recursive loop enters itself with further items
            args = (self.counted(args[0], self._literals), *args[1:]) if args else args
        elif isinstance(owner, str):
            if function.__name__ == "join" and args:
                args = (self._joinable(owner, args[0]), *args[1:])
            check_text_method(self.budget, function.__name__, owner, args, named)
            self.budget.spend(len(owner))
        elif not isinstance(function, Macro) or function.catch_varargs or function.catch_kwargs:
            self.budget.weigh(*args, *(named[name] for name in named.keys() - _SCOPES))
        return self.copied(super().call(context, function, *args, **named))

    # The hooks that `template_hooks` puts into a template.

    def counted(self, items: Iterable[Any], literals: int) -> Iterator[Any]:
        """What a loop goes through; each turn may write so many characters of literal text."""
        for item in items:
            self.budget.step()
            self.budget.spend(literals)
            yield item

    def weighed(self, value: Any) -> Any:
        """A new list, tuple or dict: one object in it twice is printed twice."""
        self.budget.weigh(value)
        return self.copied(value)

    def copied(self, value: Any) -> Any:
        """A value that may be new."""
        if isinstance(value, str):
            self.budget.spend(len(value))
        elif isinstance(value, list | tuple | dict):
            self.budget.spend(ITEM * len(value))
        return value

    def concatenated(self, *values: Any) -> str:
        """`a ~ b ~ c`."""
        texts = [str(value) for value in values]
        self.budget.weigh(*texts)
        return str(self.copied("".join(texts)))

    def _bounded(self, name: str) -> Callable[..., Any]:
        """A filter of jinja's within the budget."""
        function, check = JINJAS_FILTERS[name], FILTER_CHECKS.get(name)
        # The value that is filtered comes first, or after what jinja hands over.
        place = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def bounded(*args: Any, **named: Any) -> Any:
            self.budget.step()
            if check is not None:
                check(self.budget, *args[place:], **named)
            if name == "join":
                separator = named.get("d", args[2] if len(args) > 2 else "")
                args = (args[0], self._joinable(separator, args[1]), *args[2:])
            result = function(*args, **named)
            return LazyItems(result, args[place]) if name in LAZY_FILTERS else self.copied(result)

        return bounded

    def _joinable(self, separator: Any, items: Iterable[Any]) -> list[Any]:
        found = list(self.counted(items, ITEM))
        check_join(self.budget, separator, found)
        return found

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # Jinja's own filter writes for HTML (it escapes <, > and &): models saw none of that.
        self.budget.step()
        check_json_indent(indent)
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        pieces = []
        for piece in encoder.iterencode(value):
            self.budget.spend(PIECE + len(piece))
            pieces.append(piece)
        return "".join(pieces)


class CompiledTemplate(NamedTuple):
    """A template's code, and how much literal text it holds."""

    code: CodeType
    literals: int


class _Namespace(Namespace):
    """Jinja's, but what is in it is not printed: it may hold another one many times over."""

    def __repr__(self) -> str:
        return "<Namespace>"


@pass_context  # so that no output is computed while compiling
def _written(context: Context, value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    environment: Any = context.environment
    environment.budget.spend(PIECE + len(text))
    return text


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
