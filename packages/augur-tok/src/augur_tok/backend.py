"""The byte-level BPE of a checkpoint folder, as a tokenizers.Tokenizer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from augur_files import shown
from augur_tok.backend_checks import check_added_tokens, check_beginning, check_byte_level
from augur_tok.byte_level_bpe import MERGES_FILE, VOCAB_FILE, bpe_of_vocab, check_merges
from augur_tok.checkpoint_files import READER, CheckpointFiles
from augur_tok.declared_tokens import CONFIG_FILE, DeclaredTokens
from augur_tok.errors import TokenizerError, broken_file
from augur_tok.family import Family
from augur_tok.library_errors import library_errors
from augur_tok.pipeline_checks import family_of_pipeline

WHOLE_FILE = "tokenizer.json"
MIXED = "They are of different checkpoints: fetch all again."


def open_backend(
    files: CheckpointFiles,
    config: Mapping[str, Any],
    declared: DeclaredTokens,
    families: Sequence[Family],
) -> tuple[tokenizers.Tokenizer, Family]:
    """Builds the tokenizer: from tokenizer.json where it exists, else vocab.json + merges.txt.

    Raises:
        TokenizerError: no such files, or they cannot be used; the message names the file.
    """
    if files.has(WHOLE_FILE):
        origin = files.folder / WHOLE_FILE
        backend, family = _from_tokenizer_json(files, declared, families)
    elif files.has(VOCAB_FILE) and files.has(MERGES_FILE):
        origin = files.folder / VOCAB_FILE
        family = _family_of_vocab(files.folder / CONFIG_FILE, config, declared, families)
        backend = bpe_of_vocab(files, family, declared.texts)
    else:
        some = files.has(VOCAB_FILE) or files.has(MERGES_FILE)
        raise TokenizerError(
            f"{files.folder} has no tokenizer: expected {WHOLE_FILE}, or both {VOCAB_FILE} and "
            f"{MERGES_FILE} ({'only one' if some else 'neither'} of the two is there). Fetch the "
            "checkpoint's tokenizer files."
        )
    with library_errors(
        f"{origin} and the files beside it make no tokenizer", "Fetch the tokenizer's files again."
    ):
        _add_declared_tokens(origin, backend, declared)
        check_added_tokens(origin, backend)
        check_byte_level(origin, backend)
        check_beginning(origin, backend, family)
    return backend, family


def without_added_tokens(backend: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same BPE, model and memory shared, that knows no added token: no text can become one."""
    plain = tokenizers.Tokenizer(backend.model)
    plain.normalizer, plain.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    return plain


def _from_tokenizer_json(
    files: CheckpointFiles, declared: DeclaredTokens, families: Sequence[Family]
) -> tuple[tokenizers.Tokenizer, Family]:
    path, text = files.folder / WHOLE_FILE, files.text(WHOLE_FILE)
    document = READER.json_object(path, text)
    family = family_of_pipeline(path, document, families)
    with library_errors(
        f"{path} is not a file that the tokenizers library reads",
        "Fetch it again; if it is whole, upgrade tokenizers.",
    ):
        backend = tokenizers.Tokenizer.from_str(text)
    model, added = document["model"], document.get("added_tokens", [])
    if isinstance(backend.model, tokenizers.models.BPE):  # others are refused below
        pairs = [one.split(" ") if isinstance(one, str) else one for one in model["merges"]]
        texts = {token["content"] for token in added} | declared.texts
        check_merges(path, model["vocab"], pairs, texts)
    # The library gives an added token the next free id, whatever the file says.
    for token in added:
        found = backend.token_to_id(token["content"])
        if found != token["id"]:
            what = f"the added token {shown(token['content'])} has the id {token['id']}"
            raise broken_file(path, f"{what}, which leaves a gap: the library reads it as {found}")
    # A file may carry the lengths of its training batches; a prompt is neither cut nor filled up.
    backend.no_truncation()
    backend.no_padding()
    return backend, family


def _family_of_vocab(
    path: Path, config: Mapping[str, Any], declared: DeclaredTokens, families: Sequence[Family]
) -> Family:
    """Beside vocab.json and merges.txt the configuration decides what they mean."""
    kind = config.get("tokenizer_class", families[0].classes[0])
    family = next((family for family in families if kind in family.classes), None)
    if family is None:
        known = ", ".join(family.classes[0] for family in families)
        what = f"tokenizer_class is {shown(kind)}; from {VOCAB_FILE} and {MERGES_FILE} only {known}"
        raise broken_file(path, f"{what} can be built", f"Use a folder with {WHOLE_FILE}.")
    for key in ("add_bos_token", "add_eos_token", "add_prefix_space"):
        if config.get(key) and not (key == "add_bos_token" and family.begins_with):
            what = f"it sets {key}, expected false: {family.names[0]} adds nothing to a text"
            raise broken_file(path, what)
    if not declared.added:
        what = "it has no added_tokens_decoder and there is no added_tokens.json"
        raise broken_file(path, f"{what}; {VOCAB_FILE} alone lacks the control tokens")
    return family


def _add_declared_tokens(
    origin: Path, backend: tokenizers.Tokenizer, declared: DeclaredTokens
) -> None:
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    backend.add_tokens([token for token in declared.added.values() if token.content not in known])
    for token_id, token in declared.added.items():
        found = backend.token_to_id(token.content)
        if found != token_id:
            what = f"it gives {token.content!r} the id {found}; the files beside it, {token_id}"
            raise broken_file(origin, what, MIXED)
    for text in sorted(declared.special):
        if backend.token_to_id(text) is None:
            what = f"it has no token {text!r}, which the files beside it declare as special"
            raise broken_file(origin, what, MIXED)
    # A name or list may single out a token that is in the vocabulary alone; it keeps its id.
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    backend.add_special_tokens(
        [
            tokenizers.AddedToken(text, special=True, normalized=False)
            for text in sorted(declared.special - added)
        ]
    )
