"""A checkpoint's chat template: messages in, one text out."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import CodeType
from typing import Any

from jinja2 import TemplateSyntaxError

from augur_tok.chat_messages import plain_messages, plain_tools, plain_variables
from augur_tok.control_marks import Marks, break_tags, mark_literals, split_marked, unused_marks
from augur_tok.errors import ChatTemplateError
from augur_tok.jinja_environment import ChatEnvironment, TemplateFunction
from augur_tok.template_budget import Budget, weight

MAX_PATTERN = 200
DATE = 50  # steps; to write a date in the longest pattern takes as long
MAX_COMPILATIONS = 4


class ChatTemplate:
    """One template with the tokens it may write."""

    def __init__(
        self,
        source: str,
        *,
        named: Mapping[str, str],
        special: Iterable[str],
        tags: Iterable[str],
    ) -> None:
        """Takes the template's Jinja source and the tokenizer's added tokens.

        Args:
            source: the template.
            named: "eos_token" and the like with their texts, as variables for the template.
            special: the texts of the special tokens.
            tags: the texts of the other added tokens.
        """
        self._named = dict(named)
        self._special = frozenset(special)
        self._tags = frozenset(tags)
        self._source = source
        self._compilations: dict[Marks | None, CodeType] = {}

    def render(self, context: Mapping[str, Any]) -> str:
        """The text of a chat; `context` comes from `chat_context`.

        Raises:
            ChatTemplateError: the source is not a Jinja template, or it refuses the messages,
                fails on them, or takes more than `template_budget` allows.
        """
        return self._rendered(context, self._named)

    def render_pieces(self, context: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
        """The same text cut into (text, is_token): added tokens and plain text between them.

        What counts as a token is said in `control_marks`.

        Raises:
            ChatTemplateError: as `render`, or the template reads the messages in such a way that
                its own control tokens cannot be told from theirs.
        """
        rendered = self.render(context)
        marks = unused_marks(rendered)
        marked = self._render_marked(context, marks)
        if marks.removed_from(marked) != rendered:
            raise ChatTemplateError(
                "a message spells an added token that the chat template looks for or changes, so "
                "that it cannot be kept apart from the template's own. Leave such tokens out of "
                "the messages; hand tool calls and results over as tool_calls and role 'tool'."
            )
        return split_marked(marked, self._special, self._tags, marks)

    def _render_marked(self, context: Mapping[str, Any], marks: Marks) -> str:
        named = {
            name: marks.own + text + marks.own if text in self._special else text
            for name, text in self._named.items()
        }
        messages = break_tags(context["messages"], self._tags, marks)
        return self._rendered({**context, "messages": messages}, named, marks)

    def _rendered(
        self, context: Mapping[str, Any], named: Mapping[str, str], marks: Marks | None = None
    ) -> str:
        code = self._compiled(marks)
        # What the caller hands in counts; the names' texts came with the template.
        budget = Budget(sum(map(weight, context.values())))
        try:
            text = ChatEnvironment(budget).render(code, {**named, **context})
            text.encode("utf-8")
        except ChatTemplateError:
            raise
        except UnicodeEncodeError as error:
            raise ChatTemplateError(
                "the checkpoint's chat template writes a lone surrogate, which is no character. "
                "Use another checkpoint's tokenizer files, or raw text."
            ) from error
        except Exception as error:  # a template may fail in any way that Python can
            raise ChatTemplateError(
                "the checkpoint's chat template failed on these messages "
                f"({type(error).__name__}): {error}"
            ) from error
        return text

    def _compiled(self, marks: Marks | None) -> CodeType:
        """The template with these marks in it; nearly all chats have the same."""
        if marks not in self._compilations:
            if len(self._compilations) == MAX_COMPILATIONS:
                self._compilations.clear()
            self._compilations[marks] = self._compile(marks)
        return self._compilations[marks]

    def _compile(self, marks: Marks | None) -> CodeType:
        environment = ChatEnvironment(Budget(0))
        try:
            tree = environment.parse(self._source)
            if marks is not None:
                mark_literals(tree, self._special, marks)
            return environment.compiled(tree)
        except ChatTemplateError:
            raise
        except Exception as error:  # the compiler lets Python's own errors through, too
            raise ChatTemplateError(
                "the checkpoint's chat template is not valid Jinja, or uses what augur does not "
                f"take in a template ({_reason(error)}). Fetch the checkpoint's "
                "tokenizer files again, or use raw text."
            ) from error


def chat_context(
    messages: object,
    add_generation_prompt: bool,
    tools: object,
    variables: Mapping[str, object],
    now: datetime,
) -> dict[str, Any]:
    """The variables that a template sees, checked and made plain.

    `now` answers the template's `strftime_now`: one moment, however often the chat is rendered.

    Raises:
        ChatTemplateError: messages, tools or variables have the wrong shape.
    """

    def strftime_now(pattern: str) -> str:
        if not isinstance(pattern, str):
            raise ChatTemplateError(
                f"the chat template asks for the date in a {type(pattern).__name__}, expected a "
                "pattern. Use another checkpoint's tokenizer files."
            )
        if len(pattern) > MAX_PATTERN:
            raise ChatTemplateError(
                f"the chat template asks for the date in a pattern of {len(pattern):,} characters, "
                f"expected at most {MAX_PATTERN}. Use another checkpoint's tokenizer files."
            )
        return now.strftime(pattern)

    return {
        "strftime_now": TemplateFunction(strftime_now, steps=DATE),
        "documents": None,
        **plain_variables(variables),
        "messages": plain_messages(messages),
        "tools": plain_tools(tools),
        "add_generation_prompt": add_generation_prompt,
    }


def _reason(error: Exception) -> str:
    """Jinja writes the line of a syntax error on a line of its own."""
    if isinstance(error, TemplateSyntaxError):
        return f"{error.message}, line {error.lineno}"
    return str(error)
