"""apps/chat.py in a terminal: typed lines, Ctrl-C, Ctrl-D."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from augur_apps.chatting.session import HINT
from augur_apps.chatting.terminal_lines import PROMPT
from augur_tok import Tokenizer
from program_run import APPS
from terminal import CTRL_C, CTRL_D, ENTER, Terminal


@pytest.mark.gate
def test_a_person_talks_stops_answers_and_leaves(chat_folder: Path, tmp_path: Path):
    tokenizer = Tokenizer.from_folder(chat_folder)
    # Digits without end, so that only Ctrl-C ends an answer.
    digits = [f"--logit-bias={tokenizer.token_id(digit)}=100" for digit in "0123456789"]
    arguments = ("--model", chat_folder, "--device", "cpu", "--dtype", "float32", *digits)
    hint = HINT.split(";")[0]
    with Terminal(APPS / "chat.py", *arguments, "--max-new-tokens", "3000") as terminal:
        terminal.expect("context 4096 tokens, 1.0 MB")
        terminal.expect(hint)
        terminal.expect(PROMPT.strip())

        terminal.type("Hello" + ENTER)
        terminal.expect(r"\d{20}")
        terminal.type(CTRL_C)
        terminal.expect("stopped; what was said is kept")
        terminal.expect(PROMPT.strip())

        terminal.type(CTRL_C)
        terminal.expect(hint)
        terminal.expect(PROMPT.strip())

        terminal.type("\x1b[200~two\rlines\x1b[201~" + ENTER)  # as a terminal pastes
        terminal.expect(r"\d{20}")
        terminal.type(CTRL_C)
        terminal.expect("stopped; what was said is kept")
        terminal.expect(PROMPT.strip())

        terminal.type("/stats" + ENTER)
        terminal.expect(r"conversation: 4 messages, \d+ of 4096 tokens")
        terminal.expect("finish: stopped")
        terminal.expect(PROMPT.strip())

        terminal.type("/reset now" + ENTER)
        terminal.expect("error: /reset takes nothing")
        terminal.expect(PROMPT.strip())

        terminal.type(f"/save {tmp_path}/talk" + ENTER)
        terminal.expect("wrote 4 messages")
        terminal.expect(PROMPT.strip())
        terminal.type(CTRL_D)
        assert terminal.exit_status() == 0

    messages = json.loads((tmp_path / "talk").read_text(encoding="utf-8"))["messages"]
    assert [message["content"] for message in messages[::2]] == ["Hello", "two\nlines"]
    for message in messages[1::2]:
        assert message["content"].isdigit()
        assert 20 <= len(message["content"]) < 3000


@pytest.mark.gate
def test_ctrl_d_during_an_answer_ends_after_it(chat_folder: Path):
    arguments = ("--model", chat_folder, "--device", "cpu", "--max-new-tokens", "600")
    digit = Tokenizer.from_folder(chat_folder).token_id("7")
    with Terminal(APPS / "chat.py", *arguments, f"--logit-bias={digit}=1000") as terminal:
        terminal.expect(PROMPT.strip())
        terminal.type("Hello" + ENTER)
        terminal.expect("7{20}")
        terminal.type(CTRL_D)
        terminal.expect("cut at 600 tokens")
        assert terminal.exit_status() == 0


def test_the_library_for_terminals_is_not_loaded_before_there_is_one():
    found = "import chat, sys; print('prompt_toolkit' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", found], cwd=APPS, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
