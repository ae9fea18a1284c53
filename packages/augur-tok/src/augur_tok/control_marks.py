"""Telling the control tokens that a chat template writes from those that a message spells.

In a rendered chat the two look alike. So the template is rendered once more with private marks in
it, and only what the marks vouch for becomes a control token:

- a special token (such as <|im_end|>) counts only where the template's own literal text holds it:
  each one in the template's source is wrapped in the `own` mark. However a message spells such a
  token, whole or in parts that the template joins, it stays plain text.
- any other added token (a tag such as <tool_call> or </think>) is part of what models themselves
  write and of what templates look for in messages, so it counts wherever it stands, except in
  messages of other roles than system and assistant: there it is broken by the `plain` mark.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from augur_tok.errors import ChatTemplateError
from augur_tok.token_finder import Spelled, TokenFinder

# Unicode gives these code points no meaning; any that the chat itself holds is passed over.
PRIVATE_USE = range(0xF0000, 0xFFFFE)
TRUSTED_ROLES = frozenset({"system", "assistant"})


class Marks(NamedTuple):
    """Two characters that the rendered chat does not hold otherwise."""

    own: str
    plain: str

    def removed_from(self, text: str) -> str:
        """The text without its marks."""
        return text.replace(self.own, "").replace(self.plain, "")


def unused_marks(rendered: str) -> Marks:
    """The first two private-use characters that this rendered chat does not hold.

    Raises:
        ChatTemplateError: it holds nearly all of them.
    """
    used = set(rendered)
    unused = list(islice((mark for mark in map(chr, PRIVATE_USE) if mark not in used), 2))
    if len(unused) < 2:
        raise ChatTemplateError(
            f"the rendered chat holds nearly all of the {len(PRIVATE_USE):,} private-use "
            "characters, two of which augur needs for marks. Leave them out."
        )
    return Marks(*unused)


def break_tags(
    messages: list[dict[str, Any]], tags: TokenFinder, marks: Marks
) -> list[dict[str, Any]]:
    """The messages with each tag in an untrusted one broken after its first character."""

    def broken(value: Any) -> Any:
        if isinstance(value, str):
            # Once more as long as breaking one lets another be seen.
            while cuts := [spelled.start + 1 for spelled in _unbroken(value, tags, marks)]:
                ends = zip([0, *cuts], [*cuts, len(value)], strict=True)
                value = marks.plain.join(value[start:end] for start, end in ends)
            return value
        if isinstance(value, dict):
            return {key: broken(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(broken(item) for item in value)
        return value

    return [
        message if message["role"] in TRUSTED_ROLES else broken(message) for message in messages
    ]


def split_marked(
    marked: str, tokens: TokenFinder, marks: Marks
) -> Iterator[tuple[str, int | None]]:
    """Cuts a marked chat into (text, token id), in order, without marks; None for plain text."""
    at = 0
    for spelled in _unbroken(marked, tokens, marks):
        if text := marks.removed_from(marked[at : spelled.start]):
            yield text, None
        yield marks.removed_from(marked[spelled.start : spelled.end]), spelled.token_id
        at = spelled.end
    if text := marks.removed_from(marked[at:]):
        yield text, None


def _unbroken(text: str, tokens: TokenFinder, marks: Marks) -> Iterator[Spelled]:
    """The tokens in a text, less those of a single character, which a mark can only follow."""
    for spelled in tokens.find(text):
        if text[spelled.end : spelled.end + 1] != marks.plain:
            yield spelled
