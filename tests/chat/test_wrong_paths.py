"""Paths that lead nowhere: one error, and the talk goes on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from augur.errors import ConversationError
from augur.messages import Message
from augur_apps.chatting.talk_file import read_talk, typed_path, write_talk
from program_run import run_in_process

MESSAGES = (Message("user", "Hi"), Message("assistant", "Hello"))
NOBODY = 65534
WRONG = {
    "no such user": ("~nosuchuser/x", "home directory"),
    "a name of 300 letters": ("x" * 300, "name too long"),
    "links in a circle": ("circle", ""),
    "below links in a circle": ("circle/x", ""),
    "a NUL": ("x\0y", "null byte"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_path_is_one_error_and_the_talk_goes_on(
    chat_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    wrong, said = WRONG[name]
    monkeypatch.chdir(tmp_path)
    Path("circle").symlink_to("circle")
    lines = f"Hello\n/save {wrong}\n/save! {wrong}\n/load {wrong}\n/save talk\n"
    fixed = ("--model", chat_folder, "--device", "cpu", "--max-new-tokens", "2")
    done = run_in_process("chat.py", *fixed, stdin=lines)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    assert len(errors) == 3
    for error in errors:
        assert error.startswith(f"error: {wrong}".replace("\0", r"\x00"))
        assert said in error
    assert [message.role for message in read_talk(Path("talk"))] == ["user", "assistant"]
    assert {entry.name for entry in tmp_path.iterdir()} == {"circle", "talk"}


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Let this process, even root's, search the folder no more."""
    folder.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
        folder.chmod(0o700)


def test_a_folder_that_one_may_not_search_is_an_error(tmp_path: Path):
    folder = tmp_path / "closed"
    folder.mkdir()
    path = folder / "talk"
    with closed(folder):
        with pytest.raises(ConversationError, match="cannot be written: Permission denied"):
            write_talk(path, MESSAGES)
        with pytest.raises(ConversationError, match="cannot be written: Permission denied"):
            write_talk(path, MESSAGES, replace=True)
        with pytest.raises(ConversationError, match="cannot be read: Permission denied"):
            read_talk(path)
    assert list(folder.iterdir()) == []


def test_the_longest_name_that_a_file_can_have_will_do(tmp_path: Path):
    path = tmp_path / ("x" * 255)
    write_talk(path, MESSAGES)
    assert read_talk(path) == MESSAGES


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert typed_path("~/talk") == tmp_path / "talk"
