"""The vocabulary of a GGUF file: byte-pair tokens, merges and added tokens."""

from dataclasses import dataclass
from typing import TypeVar

from augur_weights.gguf_family import GGUFFamily
from augur_weights.gguf_file import GGUFFile

T = TypeVar("T")

# Token types of GGUF (``llama_token_type`` in llama.h).
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5


@dataclass(frozen=True)
class AddedToken:
    """A token that is found before byte pairs are merged; a special one decoding may leave out."""

    id: int
    content: str
    special: bool

    def flags(self) -> dict[str, object]:
        """The token as both files describe it; none is stripped or normalized."""
        none = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        return {"content": self.content, **none, "special": self.special}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a file: byte-pair tokens first, then the added ones.

    Attributes:
        byte_pairs: tokens in byte-level spelling; the place in the list is the id.
        merges: pairs, the first to merge first, written "left right".
        added: the added tokens by rising id; padding entries are not among them.
        size: how many ids there are, padding included.
    """

    byte_pairs: list[str]
    merges: list[str]
    added: list[AddedToken]
    size: int

    def added_id(self, content: str) -> int | None:
        """The id of an added token, or None if there is none of that text."""
        return next((token.id for token in self.added if token.content == content), None)


def read_vocabulary(gguf: GGUFFile, family: GGUFFamily) -> Vocabulary:
    """The file's vocabulary; a GGUFError for another kind, or lists that do not fit together."""
    kinds = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": family.pre_tokenizer}
    for key, expected in kinds.items():
        if (found := gguf.require(key, str)) != expected:
            raise gguf.error(f"{key} is '{found}', which is not supported; expected '{expected}'")
    tokens = _list(gguf, "tokenizer.ggml.tokens", str)
    types = _list(gguf, "tokenizer.ggml.token_type", int)
    merges = _list(gguf, "tokenizer.ggml.merges", str)
    if len(tokens) != len(types):
        raise gguf.error(f"{len(tokens)} tokens but {len(types)} token types in the metadata")
    first_added = next((i for i, kind in enumerate(types) if kind != _NORMAL), len(types))
    byte_pairs = tokens[:first_added]
    added = [
        _added_token(gguf, family, token_id, tokens[token_id], types[token_id])
        for token_id in range(first_added, len(tokens))
        if types[token_id] != _UNUSED
    ]
    known = set(byte_pairs)
    if len(known | {token.content for token in added}) != len(byte_pairs) + len(added):
        raise gguf.error("tokenizer.ggml.tokens holds a token twice")
    for merge in merges:
        left, space, right = merge.partition(" ")
        if not (space and left in known and right in known and left + right in known):
            raise gguf.error(
                f"tokenizer.ggml.merges holds {merge!r}, expected two tokens that join to a third"
            )
    joined = {merge.replace(" ", "", 1) for merge in merges}
    unmade = [token for token in byte_pairs if len(token) > 1 and token not in joined]
    if unmade:
        raise gguf.error(
            f"tokenizer.ggml.merges makes {len(unmade)} of the tokens by no merge (the first is "
            f"{unmade[0]!r}), so the list is not whole. Fetch the file again"
        )
    return Vocabulary(byte_pairs, merges, added, len(tokens))


def _added_token(
    gguf: GGUFFile, family: GGUFFamily, token_id: int, content: str, kind: int
) -> AddedToken:
    if kind not in (_CONTROL, _USER_DEFINED):
        raise gguf.error(
            f"token {token_id} ({content!r}) has type {kind} after the first added "
            "token; expected 3 (control), 4 (user-defined) or 5 (unused)"
        )
    return AddedToken(token_id, content, kind == _CONTROL and content not in family.not_special)


def _list(gguf: GGUFFile, key: str, kind: type[T]) -> list[T]:
    values = gguf.require(key, list)
    # An array in a GGUF file has one element type, so that the first element tells.
    if not values or type(values[0]) is not kind:
        raise gguf.error(f"metadata key '{key}' is no list of {kind.__name__}")
    return values
