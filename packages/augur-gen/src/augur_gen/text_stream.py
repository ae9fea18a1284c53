"""A generation as text: pieces to print as they are made, and the whole in the end."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from augur_gen.generation import Generation, GenerationResult
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


class TextStream(Iterator[str]):
    """The pieces of a generation's text, none of them empty.

    It may be left at any piece: `finish()` then releases what was held back. To stop it from a
    signal handler or another thread, `cancel()` it.

    Args:
        generation: whose tokens to decode; nobody else takes tokens from it.
        decoder: fresh, the stream decoder of a tokenizer.
        stop_strings: any of them ends the text and the generation ("stop"). They see special
            tokens, too, which the decoder may leave out of the text.

    Raises:
        GenerationError: a stop string is empty or no string.
    """

    def __init__(
        self, generation: Generation, decoder: TokenDecoder, stop_strings: Iterable[str] = ()
    ) -> None:
        self._generation = generation
        self._decoder = decoder
        self._stop_strings = StopStrings(stop_strings)
        self._pieces: list[str] = []
        self._is_finished = False

    def __next__(self) -> str:
        """Generate until there is text to release."""
        if self._is_finished:
            raise StopIteration
        for token_id in self._generation:
            piece = self._stop_strings.push(self._decoder.push(token_id))
            piece += self._stop_strings.push(self._decoder.skipped(token_id), hidden=True)
            if self._stop_strings.found is not None:
                self._generation.finish("stop")
            if piece:
                self._pieces.append(piece)
                return piece
        piece = self.finish()
        if not piece:
            raise StopIteration
        return piece

    def finish(self) -> str:
        """End the text here, and take what was held back."""
        if self._is_finished:
            return ""
        self._is_finished = True
        piece = self._stop_strings.push(self._decoder.finish()) + self._stop_strings.finish()
        self._pieces.append(piece)
        return piece

    def cancel(self) -> None:
        """End it, from any thread: a token under way is completed, no other is begun."""
        self._generation.cancel()

    def run(self) -> TextResult:
        """Generate to the end."""
        for _ in self:
            pass
        return self.result()

    def result(self) -> TextResult:
        """What there is so far."""
        generation = self._generation.result()
        if self._stop_strings.found is not None:
            generation = dataclasses.replace(generation, finish_reason="stop")
        return TextResult("".join(self._pieces), self._stop_strings.found, generation)
