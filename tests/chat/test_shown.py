"""Words of a file or a model do not steer the terminal."""

import json
import sys
from pathlib import Path

import pytest

from augur.conversation import Conversation
from augur.llm import LLM
from augur.options import GenerationOptions
from augur_apps.chatting.shown import shown
from augur_apps.chatting.talk import Talk
from augur_gen import SamplingParams
from program_run import run_in_process

EVIL, SPELLED = "\x1b]0;EVIL\x07", r"\x1b]0;EVIL\x07"


def test_control_characters_are_spelled_out_and_all_else_stays():
    assert shown(f"{EVIL}\x00\x08\r\n\t\x7f\x9b31m") == rf"{SPELLED}\x00\x08\r" + "\n\t" + (
        r"\x7f\x9b31m"
    )
    for text in ("你\u3000好", "می\u200cروم", "👩\u200d💻", "a\xa0b", r"C:\x1b", "'\"", "\u2028"):
        assert shown(text) == text


def test_words_of_a_file_and_of_a_person_are_spelled_out(chat_folder: Path, tmp_path: Path):
    path = tmp_path / "talk"
    messages = [
        {"role": "system", "content": f"{EVIL}\nbrief"},
        {"role": "user", "content": f"old {EVIL}"},
        {"role": "assistant", "content": "yes"},
    ]
    path.write_text(json.dumps({"messages": messages}))
    arguments = ("--model", chat_folder, "--device", "cpu", "--max-new-tokens", "2")
    drop = ("--context", "80", "--when-full", "drop", "--load", path)
    done = run_in_process(
        "chat.py", *arguments, *drop, stdin=f"/system\nHello\n/load nowhere{EVIL}\n/{EVIL}\n"
    )
    assert f"\n{SPELLED}\nbrief\n" in done.stderr
    assert f"  user: old {SPELLED}\n" in done.stderr
    assert f"error: nowhere{SPELLED} cannot be read" in done.stderr
    assert f"there is no command /{SPELLED}," in done.stderr
    assert not {"\x1b", "\x07"} & set(done.stderr)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_an_answer_is_exact_in_a_pipe_and_steers_no_terminal(
    engine: LLM,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    (escape,) = engine.tokenizer.encode("\x1b")
    options = GenerationOptions(2, SamplingParams(temperature=0, logit_bias={escape: 1000.0}))
    talk = Talk(Conversation(engine, 256), options, is_interactive=False)
    talk.send("Hello")
    assert capsys.readouterr().out == (r"\x1b\x1b" if is_terminal else "\x1b\x1b") + "\n"
    assert talk.conversation.messages[-1].content == "\x1b\x1b"
