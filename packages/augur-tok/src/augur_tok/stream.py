"""Token ids in, one at a time; whole characters out."""

import codecs
from collections.abc import Callable
from typing import SupportsIndex

from augur_tok.arguments import checked_token_id
from augur_tok.errors import TokenizerError


class StreamDecoder:
    """Decodes token ids as they are made; get one from `Tokenizer.stream`.

    What all `push` calls and one `finish` return, joined, equals `Tokenizer.decode` of the whole
    list, for any ids. A token may end inside a character: its first bytes (three at most) wait for
    the next token. Each push costs the length of its own token, however long the text has become.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], skipped_ids: frozenset[int]) -> None:
        """`token_bytes` maps an id to its bytes; ids in `skipped_ids` are passed over."""
        self._token_bytes = token_bytes
        self._skipped_ids = skipped_ids
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._finished = False

    def push(self, token_id: SupportsIndex) -> str:
        """The characters that this token completes, "" where it completes none.

        Raises:
            TokenizerError: the id is negative or no integer, or the stream is finished.
        """
        if self._finished:
            raise TokenizerError("this stream is finished; take a new one from Tokenizer.stream().")
        number = checked_token_id(token_id)
        if number in self._skipped_ids:
            return ""
        return self._utf8.decode(self._token_bytes(number))

    def skipped(self, token_id: SupportsIndex) -> str:
        """The text of a token that `push` passes over, such as "<|im_end|>"; "" for any other.

        Raises:
            TokenizerError: the id is negative or no integer.
        """
        number = checked_token_id(token_id)
        found = self._token_bytes(number) if number in self._skipped_ids else b""
        return found.decode("utf-8", errors="replace")

    def finish(self) -> str:
        """Ends the stream: U+FFFD where the last character was left incomplete, else ""."""
        self._finished = True
        return self._utf8.decode(b"", final=True)
