"""The Jinja environment in which one chat is rendered: transformers' settings, within bounds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import BuiltinMethodType, CodeType, MethodType
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, Undefined, nodes, pass_context
from jinja2.ext import loopcontrols
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace

from augur_tok.generation_tag import GenerationTag
from augur_tok.template_budget import MACRO_CALL, PIECE, Budget
from augur_tok.template_filters import counted, filters_within, tests_within
from augur_tok.template_hooks import add_hooks
from augur_tok.template_operations import BINARY, call_method, compare, is_allowed, operate
from augur_tok.template_values import check_key, refused, text_of, unmarked, walk

# What jinja hands to every call beside the template's own arguments.
_SCOPES = frozenset({"_loop_vars", "_block_vars"})

MAX_NAME = 100  # characters of a name in a message


@dataclass(frozen=True)
class TemplateFunction:
    """A function that a template may call; a call takes so many steps."""

    function: Callable[..., Any]
    steps: int = 1


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The environment of one rendering; the settings decide where a template's spaces go.

    A template comes with the weights, from anyone. What it may use of the language, of filters, of
    functions and of attributes is listed, and whatever it does is paid for from the budget before
    it is done. `strftime_now`, which reads the clock, is not here: the caller hands it in.
    """

    intercepted_binops = frozenset(BINARY)

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
        self.filters = filters_within(budget)
        self.tests = dict[str, Any](tests_within(budget))
        self.globals = {
            "dict": TemplateFunction(self._new_dict),
            "namespace": TemplateFunction(_namespace),
            "raise_exception": TemplateFunction(self._raise_exception),
            "range": TemplateFunction(safe_range),
        }

    def compiled(self, tree: nodes.Template) -> CodeType:
        """A parsed template compiled, for any environment of this class; the tree is changed."""
        add_hooks(tree)
        return self.compile(tree)

    def render(self, code: CodeType, context: Mapping[str, Any]) -> str:
        """The text that a template writes; what it takes is taken from this budget."""
        text = Template.from_code(self, code, self.make_globals(None)).render(context)
        self.budget.check_text(len(text))
        return text

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """The sandbox's hook: whether a template may take an attribute."""
        return super().is_safe_attribute(obj, attr, value) and is_allowed(obj, attr)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """The sandbox's hook for an attribute that is refused; its message names it, unpaid."""
        return super().unsafe_undefined(obj, attribute[:MAX_NAME])

    def wrap_str_format(self, value: Any) -> None:
        """The sandbox's hook for str.format, which is here a method like any other."""

    def getitem(self, obj: Any, argument: Any) -> Any:
        """The sandbox's hook for obj[argument]."""
        check_key(self.budget, argument)
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ARG002 (jinja's)
        """The sandbox's hook for operators."""
        return operate(self.budget, operator, left, right)

    def call(self, context: Context, function: Any, /, *args: Any, **named: Any) -> Any:
        """The sandbox's hook for calls: of methods, functions, macros and of the hooks below."""
        owner = function.__self__ if isinstance(function, MethodType) else None
        if owner is self:
            return function(*args)
        self.budget.step()
        if isinstance(function, Macro):
            self.budget.step(MACRO_CALL)
            return super().call(context, function, *args, **named)
        given = {name: value for name, value in named.items() if name not in _SCOPES}
        if isinstance(function, BuiltinMethodType):
            return call_method(self.budget, function, args, given)
        if isinstance(function, TemplateFunction):
            self.budget.step(function.steps)
            made = function.function(*args, **given)
            self.budget.spend(len(made) if isinstance(made, str) else 0)
            return made
        if isinstance(owner, LoopContext):  # its cycle, the only method that it has here
            return function(*args, **given)
        if isinstance(function, Undefined):
            return function()  # which raises, and says what is undefined
        raise refused(f"calls a {type(function).__name__}")

    # The hooks that `template_hooks` puts into a template.

    def counted(self, items: Any, steps: int) -> Iterator[Any]:
        """What a loop goes through; a turn takes so many steps."""
        return counted(self.budget, items, steps)

    def entered(self, steps: int) -> None:
        """A macro's body, which takes so many steps."""
        self.budget.step(steps)

    def new(self, value: Any) -> Any:
        """A new list or tuple."""
        self.budget.new_list(len(value))
        return value

    def new_dict(self, keys: tuple[Any, ...], values: tuple[Any, ...]) -> dict[Any, Any]:
        """A new dict."""
        self.budget.new_list(2 * len(keys))
        for key in keys:
            check_key(self.budget, key)
        return dict(zip(keys, values, strict=True))

    def sliced(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """`value[start:stop:step]`."""
        part = slice(start, stop, step)
        if isinstance(value, str):
            self.budget.new_text(len(range(*part.indices(len(value)))))
            return unmarked(self.budget, value)[part]
        if isinstance(value, list | tuple):
            self.budget.new_list(len(range(*part.indices(len(value)))))
        elif not isinstance(value, range | Undefined | None):
            raise refused(f"takes a part of a {type(value).__name__}")
        return value[part]

    def concatenated(self, *values: Any) -> str:
        """`a ~ b ~ c`."""
        texts = [text_of(self.budget, value) for value in values]
        self.budget.new_text(sum(map(len, texts)))
        return "".join(texts)

    def compared(self, left: Any, *comparisons: Any) -> bool:
        """`left < b <= c`, written as left, "lt", b, "lteq", c."""
        self.budget.step()
        for comparison, right in zip(comparisons[::2], comparisons[1::2], strict=True):
            if not compare(self.budget, comparison, left, right):
                return False
            left = right
        return True

    # What a template finds by name.

    def _new_dict(self, source: Any = (), /, **named: Any) -> dict[Any, Any]:
        if source and not isinstance(source, dict):
            raise refused("makes a dict of what is none")
        self.budget.new_list(2 * (len(source) + len(named)))
        return {**dict(source), **named}

    def _raise_exception(self, message: Any) -> NoReturn:
        walk(self.budget, message)
        raise TemplateError(text_of(self.budget, message))


def _namespace(**named: Any) -> Namespace:
    return Namespace(**named)


@pass_context  # so that no output is computed while compiling
def _written(context: Context, value: Any) -> str:
    environment: Any = context.environment
    text = text_of(environment.budget, value)
    environment.budget.spend(PIECE + len(text))
    return text
