"""What is taken for token ids."""

from collections.abc import Iterable

from augur_gen.checked_numbers import integer
from augur_gen.errors import GenerationError


def checked_token_ids(token_ids: Iterable[object], where: str) -> list[int]:
    """The ids as plain integers.

    Args:
        token_ids: integers of any library.
        where: names them in an error.

    Raises:
        GenerationError: one is no integer.
    """
    return [_checked(token_id, index, where) for index, token_id in enumerate(token_ids)]


def _checked(token_id: object, index: int, where: str) -> int:
    checked = integer(token_id)
    if checked is None:
        raise GenerationError(
            f"token {index} of {where} is {token_id!r} ({type(token_id).__name__}), expected an "
            "integer"
        )
    return checked
