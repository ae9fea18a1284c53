"""What is taken for a number and for token ids: those of any library, but no bool."""

import math
import numbers
import operator
from collections.abc import Iterable

from augur_gen.errors import GenerationError


def integer(value: object) -> int | None:
    """The value as an int; None if it is no integer."""
    if isinstance(value, bool):  # which Python counts as one
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def real(value: object) -> float | None:
    """The value as a float, or as the int it is, infinities too; None if it is no number or NaN."""
    whole = integer(value)
    if whole is not None:
        return whole
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or math.isnan(value):
        return None
    return float(value)


def checked_token_ids(
    token_ids: Iterable[object], where: str, vocab_size: int | None = None
) -> list[int]:
    """The ids as plain integers.

    Args:
        token_ids: integers of any library.
        where: names them in an error.
        vocab_size: how many ids there are; None leaves that open.

    Raises:
        GenerationError: one is no integer, or outside the vocabulary.
    """
    checked = []
    for index, given in enumerate(token_ids):
        token_id = integer(given)
        if token_id is None:
            raise GenerationError(
                f"token {index} of {where} is {given!r} ({type(given).__name__}), expected an "
                "integer"
            )
        if vocab_size is not None and not 0 <= token_id < vocab_size:
            raise GenerationError(
                f"token {index} of {where} is {token_id}; the model's vocabulary is 0 to "
                f"{vocab_size - 1}"
            )
        checked.append(token_id)
    return checked
