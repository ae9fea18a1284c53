"""The added tokens of an open tokenizer, and which of them are special."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self
from unicodedata import normalize

import tokenizers

from augur_tok.declared_tokens import DeclaredTokens
from augur_tok.token_finder import TokenFinder


@dataclass(frozen=True)
class AddedTokens:
    """The tokens that stand beside the BPE vocabulary.

    Attributes:
        ids: every added token's text and id, by rising id.
        special: those of them that are special, such as <|im_end|>.
        named: "eos_token" and the like, each with its text.
        normalized: those that a text spells in whatever normal form, by the library's flag.
        normalizer: what brings a text into its normal form; None where nothing does.
    """

    ids: Mapping[str, int] = field(default_factory=dict)
    special: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    normalized: frozenset[str] = frozenset()
    normalizer: tokenizers.normalizers.Normalizer | None = None

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer, declared: DeclaredTokens) -> Self:
        """Reads them; a flag in tokenizer_config.json counts before one in tokenizer.json."""
        tokens = sorted(backend.get_added_tokens_decoder().items())
        ids = {token.content: token_id for token_id, token in tokens}
        special = {
            token.content: token_id
            for token_id, token in tokens
            if declared.added.get(token_id, token).special or token.content in declared.special
        }
        defaults = {name: text for name, text in declared.defaults.items() if text in ids}
        return cls(
            ids=ids,
            special=special,
            named={**defaults, **declared.named},
            normalized=frozenset(token.content for _, token in tokens if token.normalized),
            normalizer=backend.normalizer,
        )

    def finder(self, mark: str = "") -> TokenFinder:
        """Finds the tokens that are not special, such as <tool_call>.

        With a mark it finds special ones too, each between two marks.
        """
        spelled = {mark + text + mark: text for text in self.special} if mark else {}
        spelled |= {text: text for text in self.ids if text not in self.special}
        ids = {spelling: self.ids[text] for spelling, text in spelled.items()}
        normalized = {s: ids[s] for s, text in spelled.items() if text in self.normalized}
        plain = {spelling: ids[spelling] for spelling in ids.keys() - normalized.keys()}
        return TokenFinder(plain, normalized, self.normalizer)

    @cached_property
    def spellings_of_special(self) -> tuple[str, ...]:
        """The texts that are special tokens: their own, and its normal forms where those count."""
        forms = [
            normalize(form, text)
            for text in self.special.keys() & self.normalized
            for form in ("NFC", "NFD")
        ]
        return tuple(sorted({*self.special, *forms}))
