"""A checkpoint's chat template: messages in, one text out."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from augur_tok.chat_messages import plain_messages, plain_tools, plain_variables
from augur_tok.control_marks import break_tags, split_marked, unused_marks
from augur_tok.errors import ChatTemplateError
from augur_tok.template_process import TemplateProcess


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
        self._source = source
        self._named = dict(named)
        self._special = tuple(sorted(special))
        self._tags = frozenset(tags)
        self._process = TemplateProcess()

    def render(self, context: Mapping[str, Any], now: datetime) -> str:
        """The text of a chat.

        Args:
            context: from `chat_context`.
            now: what the template sees if it asks for the date.

        Raises:
            ChatTemplateError: the source is not a Jinja template, or it refuses the messages,
                fails on them, or takes more than `template_process` allows.
        """
        return self._rendered(context, now, self._named)

    def render_pieces(
        self, context: Mapping[str, Any], now: datetime
    ) -> Iterator[tuple[str, bool]]:
        """The same text cut into (text, is_token): added tokens and plain text between them.

        What counts as a token is said in `control_marks`.

        Raises:
            ChatTemplateError: as `render`, or the template reads the messages in such a way that
                its own control tokens cannot be told from theirs.
        """
        rendered = self.render(context, now)
        marks = unused_marks(rendered)
        marked = self._rendered(
            {**context, "messages": break_tags(context["messages"], self._tags, marks)},
            now,
            {
                name: marks.own + text + marks.own if text in self._special else text
                for name, text in self._named.items()
            },
            marks.own,
        )
        if marks.removed_from(marked) != rendered:
            raise ChatTemplateError(
                "a message spells an added token that the chat template looks for or changes, so "
                "that it cannot be kept apart from the template's own. Leave such tokens out of "
                "the messages; hand tool calls and results over as tool_calls and role 'tool'."
            )
        return split_marked(marked, self._special, self._tags, marks)

    def _rendered(
        self, context: Mapping[str, Any], now: datetime, named: Mapping[str, str], mark: str = ""
    ) -> str:
        return self._process.render(
            dict(context),
            source=self._source,
            named=dict(named),
            special=self._special,
            mark=mark,
            now=now.isoformat(),
        )


def chat_context(
    messages: object, add_generation_prompt: bool, tools: object, variables: Mapping[str, object]
) -> dict[str, Any]:
    """The variables that a template sees, checked and made plain.

    Raises:
        ChatTemplateError: messages, tools or variables have the wrong shape.
    """
    return {
        "documents": None,
        **plain_variables(variables),
        "messages": plain_messages(messages),
        "tools": plain_tools(tools),
        "add_generation_prompt": add_generation_prompt,
    }
