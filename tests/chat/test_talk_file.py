"""A conversation as a file: read back as it was written, never half written, never guessed at."""

import json
import stat
from pathlib import Path

import pytest

from augur.errors import ConversationError
from augur.messages import Message
from augur_apps.chatting.talk_file import read_talk, write_talk

MESSAGES = (
    Message("system", "Sé breve.\r\n\ttab"),
    Message("user", '你好 🙂 \u0000 \u2028 \x1b[31m <|im_end|> "quoted" \\'),
    Message("assistant", "Hi �\n\n```python\nprint(1)\n```"),
    Message("user", ""),
    Message("assistant", ""),
)


def test_any_text_comes_back_as_it_was(tmp_path: Path):
    path = tmp_path / "täst 🙂.json"
    write_talk(path, MESSAGES)
    assert read_talk(path) == MESSAGES
    assert "你好" in path.read_text(encoding="utf-8"), "readable in any editor"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode, "as any new file"


def test_a_file_that_is_there_is_replaced_only_if_asked(tmp_path: Path):
    path = tmp_path / "mine"
    path.write_text("precious")
    with pytest.raises(ConversationError, match="/save!"):
        write_talk(path, MESSAGES)
    assert path.read_text() == "precious"
    write_talk(path, MESSAGES, replace=True)
    assert read_talk(path) == MESSAGES


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int):
    path = tmp_path / "mine"
    path.touch()
    path.chmod(mode)
    write_talk(path, MESSAGES, replace=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_byte_order_mark_is_no_part_of_the_talk(tmp_path: Path):
    path = tmp_path / "talk"
    write_talk(path, MESSAGES)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_talk(path) == MESSAGES


def test_a_link_stays_a_link(tmp_path: Path):
    (tmp_path / "kept").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("kept")
    write_talk(link, MESSAGES, replace=True)
    assert link.is_symlink()
    assert read_talk(tmp_path / "kept") == MESSAGES


def test_a_write_that_fails_leaves_the_former_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "talk.json"
    write_talk(path, MESSAGES[:1])

    def disk_is_full(_descriptor: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("augur_apps.chatting.talk_file.os.fsync", disk_is_full)
    with pytest.raises(ConversationError, match="No space left"):
        write_talk(path, MESSAGES, replace=True)
    assert read_talk(path) == MESSAGES[:1]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["nowhere/talk.json", "."])
def test_a_place_that_takes_no_file_is_one_message(tmp_path: Path, place: str):
    with pytest.raises(ConversationError):
        write_talk(tmp_path / place, MESSAGES, replace=True)


def talk(*messages: object) -> str:
    return json.dumps({"messages": messages})


USER = {"role": "user", "content": "Hi"}
ASSISTANT = {"role": "assistant", "content": "Hello"}
SYSTEM = {"role": "system", "content": "Be brief."}

WRONG = {
    "empty": ("", "is empty, expected JSON"),
    "cut short": ('{"messages": [{"role"', "not JSON"),
    "nested beyond reason": ("[" * 100_000, "nested more than 64 deep"),
    "a key twice": ('{"messages": [], "messages": []}', 'has the key "messages" twice'),
    "two contents": (
        '{"messages": [{"role": "user", "content": "a", "content": "b"}]}',
        'has the key "content" twice',
    ),
    "a list": ("[]", "no conversation"),
    "no messages": ("{}", "no conversation"),
    "messages of another kind": ('{"messages": "Hi"}', "messages is a text, expected a list"),
    "a message of another kind": (talk("Hi"), "messages[0] is a text, expected an object"),
    "no content": (talk({"role": "user"}), "messages[0] has the keys ['role']"),
    "another key": (talk(USER | {"name": "x"}), "'content', 'name', 'role'"),
    "content in parts": (talk(USER | {"content": []}), "messages[0] has a list as its content"),
    "content left empty": (talk(USER | {"content": None}), "messages[0] has null as its content"),
    "another role": (talk({"role": "tool", "content": ""}), "the role 'tool', expected one of"),
    "a role of another kind": (talk({"role": ["user"], "content": ""}), "the role ['user']"),
    "system later": (talk(USER, ASSISTANT, SYSTEM), "messages[2] has the role 'system'"),
    "two users": (talk(USER, USER), "messages[1] has the role 'user', expected assistant"),
    "assistant first": (talk(ASSISTANT), "messages[0] has the role 'assistant'"),
    "assistant after system": (talk(SYSTEM, ASSISTANT), "expected user"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_conversation_is_one_message_that_names_the_file(tmp_path: Path, name: str):
    text, said = WRONG[name]
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ConversationError) as refused:
        read_talk(path)
    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)


def test_a_file_that_is_not_utf8_or_not_there_is_one_message(tmp_path: Path):
    (tmp_path / "latin").write_bytes(b'{"messages": [{"role": "user", "content": "caf\xe9"}]}')
    for name in ("latin", "nowhere", "."):
        with pytest.raises(ConversationError, match=name if name != "." else "cannot be read"):
            read_talk(tmp_path / name)


def test_a_conversation_may_be_empty_or_end_with_a_question(tmp_path: Path):
    for messages in ((), MESSAGES[:1], MESSAGES[:2]):
        write_talk(tmp_path / "talk", messages, replace=True)
        assert read_talk(tmp_path / "talk") == messages
