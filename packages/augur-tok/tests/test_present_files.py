"""What is there in a file's place and is no file: it is named, not passed over."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augur_tok import Tokenizer, TokenizerError

Copier = Callable[[Path, dict[str, Any]], Path]
Spoiler = Callable[[Path], None]

NAMES = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
]
OLDER_NAMES = ["vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json"]


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def looping(path: Path) -> None:
    path.symlink_to(path.name)


SPOILERS: dict[str, tuple[Spoiler, str]] = {
    "a link that leads nowhere": (dangling, "nowhere, where nothing is"),
    "a link to itself": (looping, "cannot be read"),
    "a pipe": (os.mkfifo, "is a pipe, expected a file"),
    "a folder": (Path.mkdir, "is a folder, expected a file"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "is a device, expected"),
}


def spoiled(folder: Path, name: str, spoil: Spoiler) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    spoil(path)
    return folder


@pytest.mark.parametrize("kind", SPOILERS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file_is_named(folder: Path, with_files: Copier, name: str, kind: str) -> None:
    spoil, reason = SPOILERS[kind]
    with pytest.raises(TokenizerError, match=reason) as raised:
        Tokenizer.from_folder(spoiled(with_files(folder, {}), name, spoil))
    assert name in str(raised.value)


@pytest.mark.parametrize("kind", SPOILERS)
@pytest.mark.parametrize("name", OLDER_NAMES)
def test_what_is_none_of_the_older_files_is_named(
    vocab_folder: Path, with_files: Copier, name: str, kind: str
) -> None:
    spoil, reason = SPOILERS[kind]
    older = with_files(vocab_folder, {"tokenizer_config.json": {}})
    with pytest.raises(TokenizerError, match=reason) as raised:
        Tokenizer.from_folder(spoiled(older, name, spoil))
    assert name in str(raised.value)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(dangling, "where nothing is"), (Path.touch, "is a file, expected a folder")],
)
def test_a_folder_of_templates_that_is_none_is_named(
    folder: Path, with_files: Copier, spoil: Spoiler, reason: str
) -> None:
    edited = spoiled(with_files(folder, {}), "additional_chat_templates", spoil)
    with pytest.raises(TokenizerError, match=f"additional_chat_templates .*{reason}"):
        Tokenizer.from_folder(edited)


@pytest.fixture
def snapshot(tmp_path: Path, folder: Path) -> Path:
    """A snapshot as huggingface_hub lays it out: links into the repository's blobs."""
    repository = tmp_path / "models--a--b"
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, repository / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    return snapshot


def test_a_snapshots_own_links_are_followed(snapshot: Path, tokenizer: Tokenizer) -> None:
    assert Tokenizer.from_folder(snapshot).encode("Hi") == tokenizer.encode("Hi")


def test_blobs_may_lie_on_another_disk(snapshot: Path, tmp_path: Path) -> None:
    blobs = snapshot.parent.parent / "blobs"
    blobs.rename(tmp_path / "disk")
    blobs.symlink_to(tmp_path / "disk")
    assert Tokenizer.from_folder(snapshot).encode("Hi")


@pytest.mark.parametrize("name", [*NAMES, "added_tokens.json", "special_tokens_map.json"])
def test_a_link_out_of_a_snapshot_is_refused(snapshot: Path, tmp_path: Path, name: str) -> None:
    (snapshot / "tokenizer_config.json").unlink()  # so that the older files are read, too
    evil = tmp_path / "evil"
    evil.write_text("{}", encoding="utf-8")
    with pytest.raises(TokenizerError, match=rf"is a link to {evil}, expected a file of") as raised:
        Tokenizer.from_folder(spoiled(snapshot, name, lambda path: path.symlink_to(evil)))
    assert name in str(raised.value)


def test_a_snapshots_folder_of_templates_may_not_lie_elsewhere(
    snapshot: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (snapshot / "additional_chat_templates").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TokenizerError, match="additional_chat_templates is a link to"):
        Tokenizer.from_folder(snapshot)


def test_links_in_a_folder_of_ones_own_are_followed(
    folder: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    assert Tokenizer.from_folder(tmp_path).encode("Hi") == tokenizer.encode("Hi")
