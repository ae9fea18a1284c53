"""The added tokens that stand beside the vocabulary: where a checkpoint declares them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from augur_files import shown
from augur_tok.arguments import checked_text
from augur_tok.checkpoint_files import CheckpointFiles
from augur_tok.errors import TokenizerError, broken_file
from augur_tok.family import Family

CONFIG_FILE = "tokenizer_config.json"
LEGACY_NAMES_FILE = "special_tokens_map.json"
LEGACY_IDS_FILE = "added_tokens.json"

MAX_ID_DIGITS = 10  # of 32 bits

# The names under which a configuration singles out a token; chat templates see them as variables.
# Source: transformers' list.
NAMES = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
# Further special tokens, under their older and their newer key.
LISTS = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True)
class DeclaredTokens:
    """What a checkpoint says about tokens beside its vocabulary.

    Attributes:
        added: the added tokens by id.
        named: "eos_token" and the like, each with its text.
        defaults: as `named`, for names the checkpoint does not mention; a default counts only if
            the vocabulary has its token.
        special: every text that is special, be it flagged, named or listed.
    """

    added: Mapping[int, tokenizers.AddedToken]
    named: Mapping[str, str]
    defaults: Mapping[str, str]
    special: frozenset[str]

    @property
    def texts(self) -> set[str]:
        """The text of every token that is declared in any way."""
        return {token.content for token in self.added.values()} | self.special


def declared_tokens(
    files: CheckpointFiles, config: Mapping[str, Any], families: Sequence[Family]
) -> DeclaredTokens:
    """Reads the declarations in tokenizer_config.json (`config`), or in the older files beside it.

    Without `added_tokens_decoder` in the configuration special_tokens_map.json (names) and
    added_tokens.json (ids) count, as in transformers.

    Raises:
        TokenizerError: a declaration is malformed.
    """
    config_path, names_path = files.folder / CONFIG_FILE, files.folder / LEGACY_NAMES_FILE
    modern = "added_tokens_decoder" in config
    legacy_names = {} if modern else files.json_object_if_present(LEGACY_NAMES_FILE)
    names = _names(config_path, config) | _names(names_path, legacy_names)
    named = {key: text for key, text in names.items() if text is not None}
    listed = _listed(config_path, config) | _listed(names_path, legacy_names)
    special = frozenset(listed | set(named.values()))
    if modern:
        added = _tokens_of_config(config_path, config["added_tokens_decoder"])
        special |= {token.content for token in added.values() if token.special}
    else:
        legacy_ids = files.json_object_if_present(LEGACY_IDS_FILE)
        added = _tokens_of_legacy_file(files.folder / LEGACY_IDS_FILE, legacy_ids, special)
    kind = config.get("tokenizer_class")
    defaults = next((family.defaults for family in families if kind in family.classes), {})
    return DeclaredTokens(
        added=added,
        named=named,
        defaults={key: text for key, text in defaults.items() if key not in names},
        special=special,
    )


def _tokens_of_config(path: Path, entries: object) -> dict[int, tokenizers.AddedToken]:
    if not isinstance(entries, dict):
        kind = type(entries).__name__
        raise broken_file(path, f"added_tokens_decoder is a {kind}, expected tokens by their ids")
    added = {}
    for key, entry in entries.items():
        if not isinstance(entry, dict) or not key.isdecimal() or len(key) > MAX_ID_DIGITS:
            found = f"added_tokens_decoder holds {shown(key)}: {shown(entry)}"
            raise broken_file(path, f"{found}, expected an id and an object with content and flags")
        _text(path, f"added_tokens_decoder[{key}]", entry)
        try:
            added[int(key)] = tokenizers.AddedToken(**entry)
        except (TypeError, ValueError) as error:
            what = f"added_tokens_decoder[{key}] has a flag that is no bool ({error})"
            raise broken_file(path, what) from error
    return dict(sorted(added.items()))


def _tokens_of_legacy_file(
    path: Path, entries: Mapping[str, Any], special: frozenset[str]
) -> dict[int, tokenizers.AddedToken]:
    added = {}
    for text, token_id in entries.items():
        if type(token_id) is not int or token_id < 0:
            found = f"{shown(text)} has the id {shown(token_id)}"
            raise broken_file(path, f"{found}, expected an integer from 0 on")
        _text(path, "the list", text)
        # The file has no flags; these are the ones transformers gives such a token.
        flag = text in special
        added[token_id] = tokenizers.AddedToken(text, special=flag, normalized=not flag)
    return dict(sorted(added.items()))


def _names(path: Path, source: Mapping[str, Any]) -> dict[str, str | None]:
    """The text under each name that a file mentions; None where it says that there is none."""
    found = {key: source[key] for key in NAMES if key in source}
    return {key: None if value is None else _text(path, key, value) for key, value in found.items()}


def _listed(path: Path, source: Mapping[str, Any]) -> set[str]:
    texts = set()
    for key in LISTS:
        value = source.get(key) or []
        if not isinstance(value, list | dict):
            raise broken_file(path, f"{key} is a {type(value).__name__}, expected a list")
        entries = value.values() if isinstance(value, dict) else value
        texts |= {_text(path, key, entry) for entry in entries}
    return texts


def _text(path: Path, key: str, value: object) -> str:
    """A token's text: it is written as text, or as an object with its `content` and flags."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise broken_file(path, f"{key} holds {shown(value)}, expected a token's text")
    try:
        return checked_text(text)
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {key}: {error} Fetch the file again.") from None
