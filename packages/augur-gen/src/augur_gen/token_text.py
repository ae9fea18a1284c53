"""Tokens that come one at a time, as text up to a stop string."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from augur_gen.generation import GenerationResult
from augur_gen.stop_strings import StopStrings
from augur_gen.stopping import FinishReason


class TokenDecoder(Protocol):
    """Token ids in, one at a time; text out."""

    def push(self, token_id: int, /) -> str:
        """The text that this token completes."""
        ...

    def skipped(self, token_id: int, /) -> str:
        """The text of a special token that `push` passes over; "" of any other."""
        ...

    def finish(self) -> str:
        """What is left when no more tokens come."""
        ...


@dataclass(frozen=True)
class TextResult:
    """What a text has come to.

    Attributes:
        text: up to a stop string, which is left out; the released pieces, joined.
        stop_string: the one that was found; None without.
        generation: the tokens, those of the stop string included, and all else. Its finish_reason
            is "stop" where a stop string was found, whatever else ended with the same token.
    """

    text: str
    stop_string: str | None
    generation: GenerationResult

    @property
    def token_ids(self) -> list[int]:
        """The new tokens, those of a stop string or a stopping EOS included."""
        return self.generation.token_ids

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None where it was not carried to its end."""
        return self.generation.finish_reason


class TokenText:
    """The text of one sequence, whoever generates it: `push` each token, and `finish` it once.

    Args:
        decoder: fresh, the stream decoder of a tokenizer.
        stop_strings: any of them ends the text. They see special tokens, too, which the decoder
            may leave out of the text.

    Raises:
        GenerationError: a stop string is empty or no string.
    """

    def __init__(self, decoder: TokenDecoder, stop_strings: Iterable[str] = ()) -> None:
        self._decoder = decoder
        self._stop_strings = StopStrings(stop_strings)
        self._pieces: list[str] = []
        self._is_finished = False

    @property
    def stop_string(self) -> str | None:
        """The one that was found: no more tokens are needed."""
        return self._stop_strings.found

    def push(self, token_id: int) -> str:
        """The text that is certain with this token; often none."""
        piece = self._stop_strings.push(self._decoder.push(token_id))
        piece += self._stop_strings.push(self._decoder.skipped(token_id), hidden=True)
        self._pieces.append(piece)
        return piece

    def finish(self) -> str:
        """End it here, and take what was held back."""
        if self._is_finished:
            return ""
        self._is_finished = True
        piece = self._stop_strings.push(self._decoder.finish()) + self._stop_strings.finish()
        self._pieces.append(piece)
        return piece

    def result(self, generation: GenerationResult) -> TextResult:
        """What there is so far, of a generation that pushed its tokens here."""
        if self.stop_string is not None:
            generation = dataclasses.replace(generation, finish_reason="stop")
        return TextResult("".join(self._pieces), self.stop_string, generation)
