"""What nobody foresaw, in a command or an answer: one line, and the session lives."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from augur.conversation import Conversation
from augur.llm import LLM
from augur.messages import Message
from augur.options import GenerationOptions
from augur_apps.chatting.session import run_session
from augur_apps.chatting.talk import Talk


class Script:
    """Lines that are known beforehand."""

    is_interactive = False

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)

    def read(self) -> str:
        try:
            return next(self._lines)
        except StopIteration:
            raise EOFError from None


@pytest.fixture
def talk(engine: LLM) -> Talk:
    return Talk(Conversation(engine, 256), GenerationOptions(4), is_interactive=False)


def roles(talk: Talk) -> list[str]:
    return [message.role for message in talk.conversation.messages]


@pytest.mark.parametrize("error", [KeyError("x"), OSError("x"), EOFError("x")], ids=repr)
@pytest.mark.parametrize("debug", [False, True])
def test_an_unforeseen_error_in_a_command_ends_nothing(
    talk: Talk,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    debug: bool,
):
    def breaks(_device: object) -> None:
        raise error

    monkeypatch.setattr("augur_apps.chatting.commands.peak_memory_bytes", breaks)
    assert run_session(talk, Script("Hello", "/stats", "/nothing", "Again"), debug=debug) == 1
    assert roles(talk) == ["user", "assistant"] * 2
    said = capsys.readouterr().err
    assert f"\ninternal error: {type(error).__name__}: {error}; what was said is kept" in said
    assert said.count("internal error") == 1
    assert ("in breaks" in said) == debug
    assert ("--debug" in said) != debug


@pytest.mark.parametrize("forward_pass", [1, 3])
def test_an_unforeseen_error_in_an_answer_keeps_what_was_said(
    talk: Talk,
    capsys: pytest.CaptureFixture[str],
    at_forward_pass: Callable[[int, Callable[[], object]], AbstractContextManager[None]],
    forward_pass: int,
):
    run_session(talk, Script("Hello"))
    before = talk.conversation.messages

    def breaks() -> None:
        raise KeyError("x")

    with at_forward_pass(forward_pass, breaks):
        assert run_session(talk, Script("Broken")) == 1
    assert "internal error: KeyError: 'x'" in capsys.readouterr().err
    num_tokens = len(talk.last_answer.result().token_ids)
    if forward_pass == 1:
        assert talk.conversation.messages == before
        assert num_tokens == 4, "the last answer is that of the turn before"
    else:
        assert talk.conversation.messages[:3] == (*before, Message("user", "Broken"))
        assert num_tokens == 2
    num_messages = len(talk.conversation.messages)
    assert run_session(talk, Script("/retry", "Again")) == 0
    assert len(talk.conversation.messages) == num_messages + 2


def test_a_refused_line_is_told_and_none_is_zero(talk: Talk):
    assert run_session(talk, Script("Hello", "/nothing", "Again")) == 2
    assert run_session(talk, Script("Again")) == 0
    assert run_session(talk, Script()) == 0


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError("No space left on device")], ids=repr)
def test_without_stdout_there_is_no_going_on(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, error: OSError
):
    def breaks(_text: str) -> None:
        raise error

    monkeypatch.setattr(sys.stdout, "write", breaks)
    with pytest.raises(type(error)) as raised:
        run_session(talk, Script("Hello", "Again"))
    assert raised.value is error
    assert len(talk.conversation.messages) == 2
