"""A checkpoint's chat template: messages in, one text out."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from augur_tok.added_tokens import AddedTokens
from augur_tok.control_marks import break_tags, split_marked, unused_marks
from augur_tok.errors import ChatTemplateError
from augur_tok.template_process import TemplateProcess


class ChatTemplate:
    """One template with the tokens it may write."""

    def __init__(self, source: str, added: AddedTokens) -> None:
        """Takes the template's Jinja source and the tokenizer's added tokens."""
        self._source = source
        self._added = added
        self._process = TemplateProcess()

    def render(self, context: Mapping[str, Any], now: datetime) -> str:
        """The text of a chat; `now` is what the template sees if it asks for the date.

        Raises:
            ChatTemplateError: the source is not a Jinja template, or it refuses the messages,
                fails on them, or takes more than `template_process` allows.
        """
        return self._rendered(context, now)

    def render_pieces(
        self, context: Mapping[str, Any], now: datetime
    ) -> Iterator[tuple[str, int | None]]:
        """The same text cut into (text, token id): added tokens, and plain text with the id None.

        What counts as a token is said in `control_marks`.

        Raises:
            ChatTemplateError: as `render`, or the template reads the messages in such a way that
                its own control tokens cannot be told from theirs.
        """
        rendered = self.render(context, now)
        marks = unused_marks(rendered)
        messages = break_tags(context["messages"], self._added.finder(), marks)
        marked = self._rendered({**context, "messages": messages}, now, marks.own)
        if marks.removed_from(marked) != rendered:
            raise ChatTemplateError(
                "a message spells an added token that the chat template looks for or changes, so "
                "that it cannot be kept apart from the template's own. Leave such tokens out of "
                "the messages; hand tool calls and results over as tool_calls and role 'tool'."
            )
        return split_marked(marked, self._added.finder(marks.own), marks)

    def _rendered(self, context: Mapping[str, Any], now: datetime, mark: str = "") -> str:
        special = self._added.spellings_of_special
        named = self._added.named.items()
        return self._process.render(
            dict(context),
            source=self._source,
            named={name: mark + text + mark if text in special else text for name, text in named},
            special=special,
            mark=mark,
            now=now.isoformat(),
        )
