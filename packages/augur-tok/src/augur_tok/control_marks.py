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

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from augur_tok.errors import ChatTemplateError

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


def any_of(tokens: Iterable[str]) -> str:
    """A regular expression for any of the tokens, the longest first; matches nothing for none."""
    return "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or "(?!)"


def break_tags(
    messages: list[dict[str, Any]], tags: Iterable[str], marks: Marks
) -> list[dict[str, Any]]:
    """The messages with each tag in an untrusted one broken after its first character."""
    pattern = re.compile(any_of(tags))

    def broken(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda match: match[0][0] + marks.plain + match[0][1:], value)
        if isinstance(value, dict):
            return {key: broken(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(broken(item) for item in value)
        return value

    return [
        message if message["role"] in TRUSTED_ROLES else broken(message) for message in messages
    ]


def split_marked(
    rendered: str, special: Iterable[str], tags: Iterable[str], marks: Marks
) -> Iterator[tuple[str, bool]]:
    """Cuts a marked chat into (text, is_token), in order, without marks and empty texts."""
    pattern = f"({marks.own}(?:{any_of(special)}){marks.own}|{any_of(tags)})"
    for place, part in enumerate(re.split(pattern, rendered)):
        if text := marks.removed_from(part):
            yield text, place % 2 == 1
