"""The special tokens that a chat template's own text holds, each wrapped in a mark.

It runs beside the template, in the process of `template_child`.
"""

import re
from collections.abc import Iterable

from jinja2 import nodes

from augur_tok.template_environment import RefusedError


def mark_literals(template: nodes.Template, special: Iterable[str], mark: str) -> nodes.Template:
    """Wraps each special token in the template's literal text in the mark, in place.

    Raises:
        RefusedError: a literal ends inside a special token, so that where the token comes from
            cannot be told.
    """
    tokens = sorted(special, key=len, reverse=True)
    whole = re.compile("|".join(map(re.escape, tokens)) or "(?!)")
    for constant in template.find_all(nodes.Const):
        if isinstance(constant.value, str):
            if part := _begun_token(whole.sub("\n", constant.value), tokens):
                raise RefusedError(
                    f"puts a control token together from parts ({part!r} ends a literal), so that "
                    "control tokens in messages cannot be told from its own. Encode apply_chat_"
                    "template's text with allow_special=True if the messages are trusted"
                )
            constant.value = whole.sub(lambda found: mark + found[0] + mark, constant.value)
    return template


def _begun_token(text: str, tokens: list[str]) -> str:
    """The longest end of a text with which one of the tokens begins; "" for none."""
    longest = min(len(text), max(map(len, tokens), default=0))
    # A single character ("<") ends many a literal that has nothing to do with a token.
    ends = (text[-length:] for length in range(longest, 1, -1))
    return next((end for end in ends if any(token.startswith(end) for token in tokens)), "")
