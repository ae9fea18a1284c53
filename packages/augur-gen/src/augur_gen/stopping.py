"""When a sequence is done."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from augur_gen.errors import GenerationError

FinishReason = Literal["eos", "length"]


@dataclass(frozen=True)
class StopConditions:
    """What ends a generation, whichever comes first.

    Attributes:
        max_new_tokens: at most this many tokens are generated ("length").
        eos_token_ids: any of these ends the text ("eos"). It is the last token of the result.
    """

    max_new_tokens: int
    eos_token_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise GenerationError(f"max_new_tokens is {self.max_new_tokens}, expected at least 1")

    @classmethod
    def of(cls, max_new_tokens: int, eos_token_ids: Iterable[int] = ()) -> "StopConditions":
        """From any iterable of ids."""
        return cls(max_new_tokens, frozenset(eos_token_ids))

    def reason(self, num_new_tokens: int, last_token_id: int) -> FinishReason | None:
        """Why to stop after `last_token_id`, the `num_new_tokens`-th; None to go on."""
        if last_token_id in self.eos_token_ids:
            return "eos"
        if num_new_tokens >= self.max_new_tokens:
            return "length"
        return None
