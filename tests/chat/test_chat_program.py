"""apps/chat.py with lines from a pipe, as a script drives it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from augur.llm import LLM
from augur.options import GenerationOptions
from augur_apps.chatting.commands import COMMANDS
from chat_turns import fresh_answer, write_chatty
from program_run import APPS, COMPUTING, run_in_process

NEW = 6
Chat = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def chat(chat_folder: Path) -> Chat:
    def run(
        lines: str | bytes, *arguments: str | Path, model: Path = chat_folder
    ) -> subprocess.CompletedProcess[str]:
        fixed = ("--model", model, *COMPUTING, "--max-new-tokens", str(NEW))
        return run_in_process("chat.py", *fixed, *arguments, stdin=lines)

    return run


def saved(path: Path) -> list[dict[str, str]]:
    return json.loads(path.read_text(encoding="utf-8"))["messages"]


def test_each_line_is_answered_on_stdout_and_nothing_else_is_there(
    chat: Chat, engine: LLM, tmp_path: Path
):
    done = chat(f"Hello\n\n   \nAnd 你好 now?\n/save {tmp_path}/talk\n")
    assert done.returncode == 0, done.stderr
    talk = saved(tmp_path / "talk")
    assert [message["role"] for message in talk] == ["user", "assistant"] * 2
    assert [message["content"] for message in talk[::2]] == ["Hello", "And 你好 now?"]
    assert done.stdout == f"{talk[1]['content']}\n{talk[3]['content']}\n"
    for end in (1, 3):
        expected = fresh_answer(engine, talk[:end], GenerationOptions(NEW)).token_ids
        assert engine.tokenizer.decode(expected) == talk[end]["content"]
    assert f"cut at {NEW} tokens" in done.stderr


def test_the_start_tells_model_context_and_memory(chat: Chat, chat_folder: Path):
    done = chat("", "--context", "128")
    assert (done.returncode, done.stdout) == (0, "")
    for said in (str(chat_folder), "cpu in float32, eager", "load ", "context 128 tokens, 0.0 MB"):
        assert said in done.stderr
    assert "context 4096 tokens, 1.0 MB" in chat("").stderr


def test_stats_tell_what_was_reused(chat: Chat):
    done = chat("Hello\nHello\n/retry\n/stats\n")
    told = done.stderr[done.stderr.index("conversation: ") :]
    assert "4 messages, " in told
    assert " of 4096 tokens\n" in told
    assert "1 prefilled at " in told
    assert f"{NEW} generated at " in told
    assert "finish: length" in told
    assert "MB for keys and values, peak " in told
    assert done.stderr.count("seed") == 0


def test_a_drawn_answer_can_be_drawn_again(chat: Chat):
    drawn = ("--temperature", "1.5", "--seed", "5")
    done = chat("Hello\n/stats\n/retry\n/stats\n", *drawn)
    first = chat("Hello\n", *drawn).stdout
    assert done.stdout.startswith(first)
    assert done.stdout != first + first
    assert "seed 5\n" in done.stderr
    assert "seed 6\n" in done.stderr
    assert "--temperature" not in done.stderr
    assert chat("Hello\n/retry\n", *drawn).stdout == done.stdout


def test_the_system_message_is_shown_set_and_kept(chat: Chat, tmp_path: Path):
    lines = f"/system\nHello\n/system  Be long.\n/system\nAgain\n/reset\n/save {tmp_path}/talk\n"
    done = chat(lines, "--system", "Be brief.")
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said[1] == "Be brief."
    assert "system message set; the conversation stays, and the next turn feeds it again" in said
    assert "Be long." in said
    assert "forgot 4 messages; the system message stays" in said
    assert saved(tmp_path / "talk") == [{"role": "system", "content": "Be long."}]
    assert "none was given" in chat("/system\n").stderr


def test_the_system_message_can_be_removed(chat: Chat, engine: LLM, tmp_path: Path):
    lines = f"Hello\n/nosystem\n/system\n/retry\n/save {tmp_path}/talk\n/nosystem\n"
    done = chat(lines, "--system", "Be brief.")
    assert done.returncode == 2
    assert "system message removed, the chat template may write its own; the conv" in done.stderr
    assert "none was given" in done.stderr
    assert "error: there is no system message to remove" in done.stderr
    talk = saved(tmp_path / "talk")
    assert [message["role"] for message in talk] == ["user", "assistant"]
    expected = fresh_answer(engine, talk[:1], GenerationOptions(NEW)).token_ids
    assert engine.tokenizer.decode(expected) == talk[1]["content"]
    assert "expect the same answer" not in done.stderr


def test_two_slashes_send_one(chat: Chat, tmp_path: Path):
    chat(f"//etc/hosts?\n/save {tmp_path}/talk\n")
    assert saved(tmp_path / "talk")[0]["content"] == "/etc/hosts?"


WRONG_LINES = {
    "unknown": ("/etc/hosts", "no command /etc/hosts, and nothing was sent"),
    "nothing but a slash": ("/", "no command /,"),
    "nothing to retry": ("/retry", "nothing to retry"),
    "too much": ("/reset now", "/reset takes nothing after it, found 'now'"),
    "too little": ("/save", "/save needs FILE"),
    "no such file": ("/load nowhere.json", "nowhere.json cannot be read"),
    "no folder": ("/save nowhere/x.json", "nowhere/x.json cannot be written"),
    "too long": ("word " * 900, "the context is full"),
}


@pytest.mark.parametrize("name", WRONG_LINES)
def test_a_line_that_is_refused_is_told_and_the_next_is_taken(chat: Chat, name: str):
    line, said = WRONG_LINES[name]
    done = chat(f"{line}\nHello\n", "--context", "512")
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert said in done.stderr
    assert done.stdout == chat("Hello\n").stdout


def test_a_line_that_is_not_utf8_is_not_sent(chat: Chat):
    done = chat(b"caf\xe9\nHello\n")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr
    assert done.stdout == chat("Hello\n").stdout


def test_a_byte_order_mark_before_the_first_line_is_not_sent(chat: Chat, tmp_path: Path):
    done = chat(f"\ufeff/system\nHello\n\ufeffAgain\n/save {tmp_path}/talk\n")
    assert done.returncode == 0, done.stderr
    assert "none was given" in done.stderr
    said = [message["content"] for message in saved(tmp_path / "talk")[::2]]
    assert said == ["Hello", "\ufeffAgain"]


def test_nothing_after_exit_is_taken(chat: Chat):
    done = chat("Hello\n/exit\nHello\n")
    assert (done.returncode, done.stdout) == (0, chat("Hello\n").stdout)


def test_help_names_every_command(chat: Chat):
    done = chat("/help\n")
    commands = ("/system [TEXT]", "/reset", "/retry", "/save FILE", "/save! FILE", "/load FILE")
    for said in (*commands, "/stats", "/help", "/exit", "//", "Ctrl-C", "Ctrl-D"):
        assert said in done.stderr


def test_the_documentation_names_every_command():
    text = (APPS.parent / "docs/chat.md").read_text(encoding="utf-8")
    for name, command in COMMANDS.items():
        assert f"`{name} {command.argument}`".replace(" `", "`") in text


def test_a_talk_is_saved_loaded_and_saved_again(chat: Chat, tmp_path: Path):
    path = tmp_path / "talk"
    chat(f"Hello\n/save {path}\n")
    before = saved(path)
    done = chat(f"Again\n/save {path}\n", "--load", path)
    assert done.returncode == 0, done.stderr
    assert "read 2 messages from" in done.stderr
    assert saved(path)[:2] == before
    assert chat("Hello\n").stdout + done.stdout == chat("Hello\nAgain\n").stdout


def test_a_file_of_somebody_else_is_not_replaced_unless_asked(chat: Chat, tmp_path: Path):
    path = tmp_path / "talk"
    path.write_text("precious")
    refused = chat(f"Hello\n/save {path}\n")
    assert refused.returncode == 2
    assert f"/save! {path} replaces it" in refused.stderr
    assert path.read_text() == "precious"
    assert chat(f"Hello\n/save! {path}\nAgain\n/save {path}\n").returncode == 0
    assert len(saved(path)) == 4
    after_reset = chat(f"/reset\nHello\n/save {path}\n", "--load", path)
    assert after_reset.returncode == 2, "another conversation than the file's"


def test_a_broken_file_leaves_the_talk_as_it_is(chat: Chat, tmp_path: Path):
    broken = tmp_path / "broken"
    broken.write_text('{"messages": [{"role": "user", "content": "\\ud800"}]}')
    done = chat(f"Hello\n/load {broken}\n/save {tmp_path}/talk\n")
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert len(saved(tmp_path / "talk")) == 2


def test_a_question_that_was_loaded_is_answered_by_retry(chat: Chat, tmp_path: Path):
    path = tmp_path / "talk"
    path.write_text('{"messages": [{"role": "user", "content": "Hello"}]}')
    done = chat("/retry\n", "--load", path)
    assert "no answer yet: /retry" in done.stderr
    assert done.stdout == chat("Hello\n").stdout


def test_drop_says_what_went(chat: Chat):
    done = chat("one\ntwo\nthree\n", "--context", "100", "--when-full", "drop")
    assert done.returncode == 0, done.stderr
    assert "dropped the 2 oldest messages\n  user: one\n  assistant: " in done.stderr


def test_a_base_model_is_refused(chat: Chat, tmp_path: Path):
    done = chat("Hello\n", model=write_chatty(tmp_path / "base", chat_template=None))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no chat template" in done.stderr


WRONG_ARGUMENTS = {
    "positions": (["--context", "4097"], "4096 tokens"),
    "no room": (["--context", str(NEW)], "no room is left"),
    "no number": (["--context", "0"], "--context"),
    "when full": (["--when-full", "summarise"], "--when-full"),
    "bias outside": (["--logit-bias", "99999=1"], "99999"),
    "seed for nothing": (["--seed", "1"], "--temperature"),
    "no such file": (["--load", "nowhere.json"], "nowhere.json cannot be read"),
    "thinking": (["--no-thinking"], "leaves no choice"),
    "batch option": (["--logprobs", "1"], "--logprobs"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused_before_the_first_turn(chat: Chat, name: str):
    arguments, said = WRONG_ARGUMENTS[name]
    done = chat("Hello\n", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_context_that_no_memory_holds_is_refused(chat: Chat, tmp_path: Path):
    endless = write_chatty(tmp_path / "endless", max_position_embeddings=2**31)
    done = chat("Hello\n", "--context", str(2**31), model=endless)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the keys and values of {2**31} tokens need" in done.stderr


def test_out_of_memory_in_a_turn_keeps_what_was_said(
    chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    generate = LLM.generate

    def bursts(engine: LLM, token_ids: list[int], *options: object, **more: object) -> object:
        if "burst" in engine.tokenizer.decode(token_ids):
            raise MemoryError
        return generate(engine, token_ids, *options, **more)

    monkeypatch.setattr(LLM, "generate", bursts)
    done = chat(f"Hello\nburst\n/save {tmp_path}/talk\n")
    assert done.returncode == 2
    assert "out of memory; what was said is kept" in done.stderr
    assert len(saved(tmp_path / "talk")) == 2


def test_stop_strings_and_token_limits_are_those_of_the_other_programs(chat: Chat):
    whole = chat("Hello\n", "--max-new-tokens", "12").stdout.strip()
    stopped = chat("Hello\n", "--max-new-tokens", "12", "--stop", whole[3]).stdout
    assert stopped == whole[: whole.index(whole[3])] + "\n"
