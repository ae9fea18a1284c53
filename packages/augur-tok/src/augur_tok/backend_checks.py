"""What a tokenizer must be for this package's promises to hold; anything else is refused."""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models

from augur_tok.errors import broken_file
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
        kinds = f"model {type(model).__name__} with decoder {type(decoder).__name__}"
        raise broken_file(origin, f"{kinds}; only BPE with ByteLevel is supported")
    if model.dropout:
        what = f"BPE dropout is {model.dropout}, so that a text has no fixed ids"
        raise broken_file(origin, what, "Set it to null for inference.")
    missing = [character for character in BYTE_OF_CHARACTER if model.token_to_id(character) is None]
    if missing:
        first = f"the vocabulary lacks {len(missing)} of the 256 byte tokens ({missing[0]!r} first)"
        raise broken_file(origin, f"{first}, so that some texts would lose characters")
    restored = backend.decode(backend.encode(PROBE, add_special_tokens=False).ids)
    if restored != PROBE:
        what = f"{PROBE!r} comes back from its ids as {restored!r}, expected unchanged"
        raise broken_file(origin, what)


def check_beginning(origin: Path, backend: tokenizers.Tokenizer, family: Family) -> None:
    """No token is put around a text but the one with which the family's begin, if there is one.

    Raises:
        TokenizerError: the post-processor would add others, or the vocabulary lacks that one.
    """
    added = backend.encode("", add_special_tokens=True).tokens
    begin = family.begins_with
    if added not in ([], [begin]):
        what = f"its post_processor adds {len(added)} token(s) to every text: {', '.join(added)}"
        raise broken_file(origin, f"{what}; {family.names[0]}'s adds {begin or 'none'}")
    if begin is not None and backend.token_to_id(begin) is None:
        raise broken_file(origin, f"it has no token {begin!r}, with which texts begin")


def check_added_tokens(origin: Path, backend: tokenizers.Tokenizer) -> None:
    """An added token matches its own text, wherever that stands; all can be looked for in a text.

    Raises:
        TokenizerError: a token looks at its neighbours, or all have too many characters.
    """
    added = backend.get_added_tokens_decoder().values()
    for token in added:
        flags = [name for name in ("lstrip", "rstrip", "single_word") if getattr(token, name)]
        if flags:
            what = f"the added token {token.content!r} sets {', '.join(flags)}"
            raise broken_file(origin, f"{what}, which is not supported")
    found = sum(len(token.content) for token in added)
    if found > MAX_ADDED_CHARACTERS:
        what = f"its {len(added):,} added tokens have {found:,} characters"
        raise broken_file(origin, f"{what}, expected at most {MAX_ADDED_CHARACTERS:,}")
