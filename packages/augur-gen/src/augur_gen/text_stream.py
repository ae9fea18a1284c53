"""A generation as text: pieces to print as they are made, and the whole in the end."""

from collections.abc import Iterable, Iterator

from augur_gen.generation import Generation
from augur_gen.token_text import TextResult, TokenDecoder, TokenText


class TextStream(Iterator[str]):
    """The pieces of a generation's text, none of them empty.

    It may be left at any piece: `finish()` then releases what was held back. To stop it from a
    signal handler or another thread, `cancel()` it.

    Args:
        generation: whose tokens to decode; nobody else takes tokens from it.
        decoder: as `TokenText` takes it.
        stop_strings: any of them ends the text and the generation ("stop").

    Raises:
        GenerationError: a stop string is empty or no string.
    """

    def __init__(
        self, generation: Generation, decoder: TokenDecoder, stop_strings: Iterable[str] = ()
    ) -> None:
        self._generation = generation
        self._text = TokenText(decoder, stop_strings)
        self._is_finished = False

    def __next__(self) -> str:
        """Generate until there is text to release."""
        if self._is_finished:
            raise StopIteration
        for token_id in self._generation:
            piece = self._text.push(token_id)
            if self._text.stop_string is not None:
                self._generation.finish("stop")
            if piece:
                return piece
        piece = self.finish()
        if not piece:
            raise StopIteration
        return piece

    def finish(self) -> str:
        """End the text here, and take what was held back."""
        self._is_finished = True
        return self._text.finish()

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
        return self._text.result(self._generation.result())
