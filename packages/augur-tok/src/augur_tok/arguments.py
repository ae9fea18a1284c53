"""Checks on what callers hand in: texts and token ids."""

import operator
from typing import SupportsIndex

from augur_files import shown
from augur_tok.errors import TokenizerError


def checked_text(text: object) -> str:
    """The text itself, if it can be written as UTF-8.

    Raises:
        TokenizerError: it is no str, or holds a lone surrogate (half of a UTF-16 pair).
    """
    if not isinstance(text, str):
        raise TokenizerError(f"expected text (str), found {type(text).__name__}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"the text holds a lone surrogate ({text[error.start]!r} at character {error.start}), "
            "which is no character: decode the bytes it came from as UTF-8."
        ) from error
    return text


def checked_token_id(token_id: SupportsIndex) -> int:
    """The id as a Python int; numpy's and torch's integer scalars are taken too.

    Raises:
        TokenizerError: it is no integer, or negative.
    """
    try:
        number = operator.index(token_id)
    except TypeError as error:
        raise TokenizerError(
            f"token ids are integers, found {type(token_id).__name__} {shown(token_id)}."
        ) from error
    if number < 0:
        raise TokenizerError(f"token ids start at 0, found {shown(number)}.")
    return number
