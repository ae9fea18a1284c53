"""A checkpoint's chat template: messages in, one text out."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from augur_tok.added_tokens import AddedTokens
from augur_tok.chat_messages import plain_messages, plain_tools, plain_variables
from augur_tok.control_marks import break_tags, split_marked, unused_marks
from augur_tok.errors import ChatTemplateError
from augur_tok.template_process import TemplateProcess
from augur_tok.token_finder import TokenFinder


class ChatTemplate:
    """One template with the tokens it may write."""

    def __init__(self, source: str, added: AddedTokens) -> None:
        """Takes the template's Jinja source and the tokenizer's added tokens."""
        self._source = source
        self._added = added
        self._tags = self._finder({text: text for text in added.tags})
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
        messages = break_tags(context["messages"], self._tags, marks)
        marked = self._rendered({**context, "messages": messages}, now, marks.own)
        if marks.removed_from(marked) != rendered:
            raise ChatTemplateError(
                "a message spells an added token that the chat template looks for or changes, so "
                "that it cannot be kept apart from the template's own. Leave such tokens out of "
                "the messages; hand tool calls and results over as tool_calls and role 'tool'."
            )
        special = {marks.own + text + marks.own: text for text in self._added.special}
        tokens = self._finder({**special, **{text: text for text in self._added.tags}})
        return split_marked(marked, tokens, marks)

    def _finder(self, tokens: Mapping[str, str]) -> TokenFinder:
        """Finds tokens by how a text spells them; of each there is the text that it has itself."""
        ids, normalized = self._added.ids, self._added.normalized
        return TokenFinder(
            {spelled: ids[text] for spelled, text in tokens.items() if text not in normalized},
            {spelled: ids[text] for spelled, text in tokens.items() if text in normalized},
            self._added.normalizer,
        )

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
