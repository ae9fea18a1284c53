"""What a tokenizer must be for this package's promises to hold; anything else is refused."""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models

from augur_tok.errors import TokenizerError
from augur_tok.family import Family
from augur_tok.token_bytes import BYTE_OF_CHARACTER

# Of all added tokens together; Qwen's have about 500. Regular expressions are made of them.
MAX_ADDED_CHARACTERS = 500_000

# Text that comes back changed if a tokenizer adds a leading space, drops spaces or strips accents.
PROBE = "x  = ('É')\n 中"


def check_byte_level(origin: Path, backend: tokenizers.Tokenizer) -> None:
    """Every text can be encoded, and comes back unchanged (but for Unicode's NFC form).

    Raises:
        TokenizerError: the tokenizer is no plain byte-level BPE.
    """
    model, decoder = backend.model, backend.decoder
    if not isinstance(model, models.BPE) or not isinstance(decoder, decoders.ByteLevel):
        raise TokenizerError(
            f"{origin}: model {type(model).__name__} with decoder {type(decoder).__name__}; "
            "only Qwen's kind, BPE with ByteLevel, is supported."
        )
    if model.dropout:
        raise TokenizerError(
            f"{origin}: BPE dropout is {model.dropout}, so that a text has no fixed ids; "
            "set it to null for inference."
        )
    missing = [character for character in BYTE_OF_CHARACTER if model.token_to_id(character) is None]
    if missing:
        raise TokenizerError(
            f"{origin}: the vocabulary lacks {len(missing)} of the 256 byte tokens (the first is "
            f"{missing[0]!r}), so that some texts would lose characters. Fetch the file again."
        )
    restored = backend.decode(backend.encode(PROBE, add_special_tokens=False).ids)
    if restored != PROBE:
        raise TokenizerError(
            f"{origin}: {PROBE!r} comes back from its ids as {restored!r}; only tokenizers that "
            "keep text unchanged, as Qwen's do, are supported."
        )


def check_begins_as_its_family(origin: Path, backend: tokenizers.Tokenizer, family: Family) -> None:
    """No token is put around a text but the one with which the family's begin, if there is one.

    Raises:
        TokenizerError: the post-processor would add others, or the vocabulary lacks that one.
    """
    added = backend.encode("", add_special_tokens=True).tokens
    begin = family.begins_with
    if added not in ([], [begin]):
        raise TokenizerError(
            f"{origin}: its post_processor adds {len(added)} token(s) to every text "
            f"({', '.join(added)}); {family.names[0]}'s adds {begin or 'none'}, and augur has no "
            "such option."
        )
    if begin is not None and backend.token_to_id(begin) is None:
        raise TokenizerError(
            f"{origin} has no token {begin!r}, with which {family.names[0]}'s texts begin. Fetch "
            "the tokenizer's files again."
        )


def check_added_tokens_match_anywhere(origin: Path, backend: tokenizers.Tokenizer) -> None:
    """An added token matches its own text, wherever that stands, and nothing around it.

    Raises:
        TokenizerError: a token has a flag by which it takes in or looks at its neighbours.
    """
    for token in backend.get_added_tokens_decoder().values():
        flags = [name for name in ("lstrip", "rstrip", "single_word") if getattr(token, name)]
        if flags:
            raise TokenizerError(
                f"{origin}: the added token {token.content!r} sets {', '.join(flags)}; no Qwen "
                "token does, and it is not supported."
            )


def check_added_tokens_are_short(origin: Path, backend: tokenizers.Tokenizer) -> None:
    """The added tokens can be looked for in a text.

    Raises:
        TokenizerError: they have too many characters.
    """
    added = backend.get_added_tokens_decoder().values()
    found = sum(len(token.content) for token in added)
    if found > MAX_ADDED_CHARACTERS:
        raise TokenizerError(
            f"{origin}: its {len(added):,} added tokens have {found:,} characters, expected at "
            f"most {MAX_ADDED_CHARACTERS:,}. Fetch the tokenizer's files again."
        )
