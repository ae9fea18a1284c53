"""The byte-level BPE of a checkpoint folder, as a tokenizers.Tokenizer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from augur_tok.backend_checks import (
    check_added_tokens_are_short,
    check_added_tokens_match_anywhere,
    check_adds_nothing,
    check_byte_level,
)
from augur_tok.declared_tokens import CONFIG_FILE, QWEN2_CLASSES, DeclaredTokens
from augur_tok.errors import TokenizerError
from augur_tok.library_errors import library_errors
from augur_tok.pipeline_checks import check_pipeline
from augur_tok.present_files import is_there
from augur_tok.qwen2_bpe import qwen2_bpe
from augur_tok.shown import shown
from augur_tok.text_files import json_object, read_text


def open_backend(
    folder: Path, config: Mapping[str, Any], declared: DeclaredTokens
) -> tokenizers.Tokenizer:
    """Builds the tokenizer: from tokenizer.json where it exists, else vocab.json + merges.txt.

    Raises:
        TokenizerError: no such files, or they cannot be used; the message names the file.
    """
    whole, vocab, merges = (
        folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt")
    )
    if is_there(whole):
        origin, backend = whole, _from_tokenizer_json(whole)
    elif is_there(vocab) and is_there(merges):
        _check_config_of_vocab(folder, config, declared)
        origin, backend = vocab, qwen2_bpe(vocab, merges)
    else:
        found = "neither" if not (is_there(vocab) or is_there(merges)) else "only one"
        raise TokenizerError(
            f"{folder} has no tokenizer: expected tokenizer.json, or both vocab.json and "
            f"merges.txt ({found} of the two is there). Fetch the checkpoint's tokenizer files."
        )
    with library_errors(
        f"{origin} and the files beside it make no tokenizer", "Fetch the tokenizer's files again."
    ):
        _add_declared_tokens(origin, backend, declared)
        check_added_tokens_match_anywhere(origin, backend)
        check_added_tokens_are_short(origin, backend)
        check_byte_level(origin, backend)
        check_adds_nothing(origin, backend)
    return backend


def without_added_tokens(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same BPE knowing no added token, so that no text can become one.

    The two share the model and its memory.
    """
    plain = tokenizers.Tokenizer(backend.model)
    if backend.normalizer is not None:
        plain.normalizer = backend.normalizer
    if backend.pre_tokenizer is not None:
        plain.pre_tokenizer = backend.pre_tokenizer
    return plain


def _from_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    text = read_text(path)
    document = json_object(path, text)
    check_pipeline(path, document)
    with library_errors(
        f"{path} is not a file that the tokenizers library reads",
        "Fetch it again; if it is whole, upgrade tokenizers.",
    ):
        backend = tokenizers.Tokenizer.from_str(text)
    # The library gives an added token the next free id, whatever the file says.
    for token in document.get("added_tokens", []):
        found = backend.token_to_id(token["content"])
        if found != token["id"]:
            raise TokenizerError(
                f"{path}: the added token {shown(token['content'])} has the id {token['id']}, "
                f"which leaves a gap: the tokenizers library reads it as {found}. Fetch the "
                "file again."
            )
    # A file may carry the lengths of its training batches; a prompt is neither cut nor filled up.
    backend.no_truncation()
    backend.no_padding()
    return backend


def _check_config_of_vocab(
    folder: Path, config: Mapping[str, Any], declared: DeclaredTokens
) -> None:
    """Beside vocab.json and merges.txt the configuration decides what they mean."""
    path = folder / CONFIG_FILE
    kind = config.get("tokenizer_class", QWEN2_CLASSES[0])
    if kind not in QWEN2_CLASSES:
        raise TokenizerError(
            f"{path}: tokenizer_class is {shown(kind)}; from vocab.json and merges.txt only "
            f"{QWEN2_CLASSES[0]} can be built. Use a checkpoint that has tokenizer.json."
        )
    for key in ("add_bos_token", "add_eos_token", "add_prefix_space"):
        if config.get(key):
            raise TokenizerError(
                f"{path} sets {key}, expected false: Qwen adds nothing to a text. "
                "Use a Qwen checkpoint's tokenizer files."
            )
    if not declared.added:
        raise TokenizerError(
            f"{path} has no added_tokens_decoder and there is no added_tokens.json; vocab.json "
            "alone lacks Qwen's control tokens. Fetch the checkpoint's tokenizer_config.json."
        )


def _add_declared_tokens(
    origin: Path, backend: tokenizers.Tokenizer, declared: DeclaredTokens
) -> None:
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    backend.add_tokens([token for token in declared.added.values() if token.content not in known])
    for token_id, token in declared.added.items():
        found = backend.token_to_id(token.content)
        if found != token_id:
            raise TokenizerError(
                f"{origin} gives {token.content!r} the id {found}, but the files beside it say "
                f"{token_id}. They are of different checkpoints: fetch all again."
            )
    for text in sorted(declared.special):
        if backend.token_to_id(text) is None:
            raise TokenizerError(
                f"{origin} has no token {text!r}, which the files beside it declare as special. "
                "They are of different checkpoints: fetch all again."
            )
    # A name or list may single out a token that is in the vocabulary alone; it keeps its id.
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    backend.add_special_tokens(
        [
            tokenizers.AddedToken(text, special=True, normalized=False)
            for text in sorted(declared.special - added)
        ]
    )
