"""Files that are no accident: too large, not encodable, made to break the library beneath."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augur_files import FileReader
from augur_tok import Tokenizer, TokenizerError, checkpoint_files
from augur_tok.library_errors import library_errors

Copier = Callable[[Path, dict[str, Any]], Path]


class PanicException(BaseException):
    """By this name Rust's panics come, and no Exception, as they are none."""


def test_a_panic_of_the_library_is_an_error_of_ours() -> None:
    with (
        pytest.raises(TokenizerError, match=r"^x\.json breaks it \(index out of range\)\. Fetch"),
        library_errors("x.json breaks it", "Fetch it again."),
    ):
        raise PanicException("index out of range")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_is_not_the_librarys_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), library_errors("x.json breaks it", "Fetch it again."):
        raise error


def test_a_panic_while_encoding_is_an_error_of_ours(folder: Path) -> None:
    class Panicking:
        def encode(self, *_: object, **__: object) -> None:
            raise PanicException("slice index")

    tokenizer = Tokenizer.from_folder(folder)
    tokenizer._plain_backend = Panicking()  # type: ignore[assignment]
    with pytest.raises(TokenizerError, match=r"fails on this text \(slice index\)"):
        tokenizer.encode("a")


def test_a_file_too_large_for_a_tokenizer_is_not_read(
    folder: Path, with_files: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_files, "READER", FileReader(TokenizerError, 1_000))
    edited = with_files(folder, {"tokenizer_config.json": " " * 1_001})
    with pytest.raises(TokenizerError, match=r"config\.json: has 1,001 bytes, expected at most"):
        Tokenizer.from_folder(edited)


def test_more_added_tokens_than_can_be_looked_for_are_refused(
    folder: Path, with_files: Copier
) -> None:
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    last = document["added_tokens"][-1]
    added = {**last, "id": last["id"] + 1, "content": "x" * 500_000}
    document["added_tokens"].append(added)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: its 8 added tokens have 500,0"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": document}))


@pytest.mark.parametrize("words", ["x\nerror: all fine", "\x1b[2J" * 9_999, "\u202e", "x" * 9_999])
def test_an_error_is_one_printable_line_whatever_it_quotes(words: str) -> None:
    message = str(TokenizerError(f"a file holds {words}. Fetch it again."))
    assert message.isprintable()
    assert len(message) <= 2_000
    assert message.startswith("a file holds ")
    assert message.endswith(". Fetch it again.")


def test_a_template_longer_than_any_is_refused(folder: Path, with_files: Copier) -> None:
    edited = with_files(folder, {"chat_template.jinja": "a" * 50_001})
    with pytest.raises(TokenizerError, match="'default' has 50,001 characters"):
        Tokenizer.from_folder(edited)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer_config.json", {"eos_token": "\ud800"}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"9": {"content": "\ud800"}}}),
        ("tokenizer_config.json", {"additional_special_tokens": ["\udfff"]}),
        ("added_tokens.json", {"\ud800": 9}),
        ("special_tokens_map.json", {"pad_token": {"content": "\ud800"}}),
    ],
)
def test_a_token_that_is_no_text_is_named_with_its_file(
    folder: Path, with_files: Copier, name: str, content: Any
) -> None:
    config = {"tokenizer_class": "Qwen2Tokenizer"}
    # As JSON may spell it: half of a pair, escaped.
    files = {"tokenizer_config.json": config, name: json.dumps(content)}
    with pytest.raises(TokenizerError, match=rf"{name}: .* lone surrogate .*Fetch"):
        Tokenizer.from_folder(with_files(folder, files))


@pytest.mark.parametrize("key", ["9" * 5_000, "٣" * 11, "-1", "1.0", ""])
def test_an_id_that_is_none_is_refused(
    folder: Path, config: dict[str, Any], with_files: Copier, key: str
) -> None:
    edited = {**config, "added_tokens_decoder": {key: {"content": "<x>"}}}
    with pytest.raises(TokenizerError, match="expected an id and an object"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": edited}))
