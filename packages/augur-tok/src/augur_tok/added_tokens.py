"""The added tokens of an open tokenizer, and which of them are special."""

from dataclasses import dataclass
from typing import Self

import tokenizers

from augur_tok.declared_tokens import DeclaredTokens


@dataclass(frozen=True)
class AddedTokens:
    """The tokens that stand beside the BPE vocabulary.

    Attributes:
        ids: every added token's text and id, by rising id.
        special: those of them that are special, such as <|im_end|>.
        named: "eos_token" and the like, each with its text.
    """

    ids: dict[str, int]
    special: dict[str, int]
    named: dict[str, str]

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer, declared: DeclaredTokens) -> Self:
        """Reads them; a flag in tokenizer_config.json counts before one in tokenizer.json."""
        ids, special = {}, {}
        for token_id, token in sorted(backend.get_added_tokens_decoder().items()):
            ids[token.content] = token_id
            flagged = declared.added.get(token_id, token).special
            if flagged or token.content in declared.special:
                special[token.content] = token_id
        defaults = {name: text for name, text in declared.defaults.items() if text in ids}
        return cls(ids=ids, special=special, named={**defaults, **declared.named})

    @property
    def tags(self) -> frozenset[str]:
        """The texts of the added tokens that are not special, such as <tool_call>."""
        return frozenset(self.ids.keys() - self.special.keys())
