"""When a sequence is done."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from augur_gen.checked_values import checked_token_ids, integer, real
from augur_gen.errors import ArgumentError
from augur_gen.logit_processors import suppress_tokens

FinishReason = Literal["eos", "stop", "length", "time", "cancelled"]
"""eos: an end-of-sequence token. stop: a stop token or a stop string. length: as many tokens as
were asked for. time: no time left. cancelled: somebody said so."""


@dataclass(frozen=True)
class StopConditions:
    """What ends a generation, whichever comes first.

    Integers and numbers of any library are taken, and ids in any iterable; they are kept as
    Python's, and ids as a frozenset.

    Attributes:
        max_new_tokens: at most this many tokens are generated ("length").
        eos_token_ids: any of these ends the text ("eos"). It is the last token of the result.
        stop_token_ids: as `eos_token_ids`, but the caller's own choice ("stop").
        min_new_tokens: neither kind of token can be chosen before there are this many.
        max_time_s: seconds from asking for the first token on, what the caller does in between
            included ("time"). Looked at between tokens: one under way is completed, so there is at
            least one. None: no limit.

    Raises:
        ArgumentError: a value of another type or outside its range.
    """

    max_new_tokens: int
    eos_token_ids: frozenset[int] = frozenset()
    stop_token_ids: frozenset[int] = frozenset()
    min_new_tokens: int = 0
    max_time_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "min_new_tokens"):
            given = getattr(self, name)
            count = integer(given)
            if count is None:
                found = type(given).__name__
                raise ArgumentError(f"{{{name}}} is %r (%s), expected an integer", given, found)
            object.__setattr__(self, name, count)
        for name in ("eos_token_ids", "stop_token_ids"):
            object.__setattr__(self, name, _ids(getattr(self, name), name))
        if self.max_new_tokens < 1:
            raise ArgumentError("{max_new_tokens} is %d, expected at least 1", self.max_new_tokens)
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            raise ArgumentError(
                "{min_new_tokens} is %d, expected 0 to {max_new_tokens}, which is %d",
                self.min_new_tokens,
                self.max_new_tokens,
            )
        if self.max_time_s is not None:
            seconds = real(self.max_time_s)
            if seconds is None or not 0 < seconds < math.inf:
                raise ArgumentError("{max_time_s} is %r, expected seconds above 0", self.max_time_s)
            object.__setattr__(self, "max_time_s", seconds)

    @classmethod
    def of(
        cls,
        max_new_tokens: int,
        eos_token_ids: Iterable[int] = (),
        stop_token_ids: Iterable[int] = (),
        *,
        min_new_tokens: int = 0,
        max_time_s: float | None = None,
    ) -> "StopConditions":
        """From any iterables of ids."""
        eos, stop = _ids(eos_token_ids, "eos_token_ids"), _ids(stop_token_ids, "stop_token_ids")
        return cls(max_new_tokens, eos, stop, min_new_tokens, max_time_s)

    def suppress(self, logits: Tensor, num_new_tokens: int) -> Tensor:
        """The logits to choose from after `num_new_tokens` tokens.

        Args:
            logits: `[batch, vocab_size]`.
            num_new_tokens: how many there are already.

        Returns:
            as `logits`: themselves from `min_new_tokens` on, before that a copy in which no token
            that ends the text can be chosen.
        """
        if num_new_tokens >= self.min_new_tokens:
            return logits
        return suppress_tokens(logits, self.eos_token_ids | self.stop_token_ids)

    def reason(self, num_new_tokens: int, last_token_id: int) -> FinishReason | None:
        """Why to stop after `last_token_id`, the `num_new_tokens`-th; None to go on."""
        if last_token_id in self.eos_token_ids:
            return "eos"
        if last_token_id in self.stop_token_ids:
            return "stop"
        return "length" if num_new_tokens >= self.max_new_tokens else None

    def is_late(self, elapsed_s: float) -> bool:
        """Whether no more token is to be begun after `elapsed_s` seconds."""
        return self.max_time_s is not None and elapsed_s >= self.max_time_s


def _ids(given: object, name: str) -> frozenset[int]:
    if not isinstance(given, Iterable):
        found = type(given).__name__
        raise ArgumentError(
            f"{{{name}}} is %r (%s), expected a collection of token ids", given, found
        )
    return frozenset(checked_token_ids(given, name))
