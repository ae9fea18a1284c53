"""Where a text spells added tokens, by the rules of the tokenizers library."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import tokenizers
from tokenizers import models


class Spelled(NamedTuple):
    """A token that a text spells, at text[start:end]."""

    start: int
    end: int
    token_id: int


class TokenFinder:
    """Finds tokens in a text: the first, and where several begin, the longest.

    Those that are flagged `normalized` come after all others: they are looked for in what is left
    between them, and there text and token are compared in their normal form.
    """

    def __init__(
        self,
        plain: Mapping[str, int],
        normalized: Mapping[str, int],
        normalizer: tokenizers.normalizers.Normalizer | None,
    ) -> None:
        """Takes the ids of the tokens that are looked for as they stand, and of the others."""
        longest_first = sorted(plain, key=len, reverse=True)
        self._plain_ids = plain
        self._plain = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._normalized_ids = list(normalized.values())
        # Between tokens its model has a single unknown word. Its ids are 0, for that, and up.
        self._normalized = tokenizers.Tokenizer(models.WordLevel({"": 0}, unk_token=""))
        self._normalized.normalizer = normalizer
        self._normalized.add_tokens([tokenizers.AddedToken(t, normalized=True) for t in normalized])

    def find(self, text: str) -> Iterator[Spelled]:
        """The tokens that a text spells, in order; no two overlap."""
        at = 0
        for match in self._plain.finditer(text):
            yield from self._between(text, at, match.start())
            yield Spelled(match.start(), match.end(), self._plain_ids[match[0]])
            at = match.end()
        yield from self._between(text, at, len(text))

    def _between(self, text: str, start: int, end: int) -> Iterator[Spelled]:
        if not self._normalized_ids or start == end:
            return
        found = self._normalized.encode(text[start:end], add_special_tokens=False)
        for place, (first, last) in zip(found.ids, found.offsets, strict=True):
            if place:
                yield Spelled(start + first, start + last, self._normalized_ids[place - 1])
