"""One answer, while it is made and afterwards."""

from collections.abc import Iterator

from augur.messages import Messages
from augur_gen import TextResult, TextStream


class Answer(Iterator[str]):
    """Pieces of text, none of them empty, computed when they are asked for.

    Args:
        prompt_token_ids: the whole conversation up to here, as the model sees it.
        num_reused: how many of them the cache holds; only the rest is fed.
        dropped: messages that went because the context was full, oldest first.
        stream: the text.
    """

    def __init__(
        self, prompt_token_ids: list[int], num_reused: int, dropped: Messages, stream: TextStream
    ) -> None:
        self.prompt_token_ids = prompt_token_ids
        self.num_reused = num_reused
        self.dropped = dropped
        self._stream = stream
        self._is_stopped = False

    def __next__(self) -> str:
        """The next piece; after `stop`, at most what was held back."""
        if not self._is_stopped:
            return next(self._stream)
        piece = self._stream.finish()
        if not piece:
            raise StopIteration
        return piece

    @property
    def num_prefilled(self) -> int:
        """Prompt tokens that are fed."""
        return len(self.prompt_token_ids) - self.num_reused

    @property
    def has_begun(self) -> bool:
        """Whether there is a token."""
        return bool(self.result().token_ids)

    def stop(self) -> None:
        """End it, from a signal handler too: a piece under way is completed."""
        self._is_stopped = True

    def result(self) -> TextResult:
        """What there is so far; its finish_reason is None where it was stopped."""
        return self._stream.result()
