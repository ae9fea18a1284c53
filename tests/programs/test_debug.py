"""How programs end on what nobody foresaw: one line, or with --debug the whole traceback."""

import importlib
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import console
from augur_tok import TokenizerError

# What each program calls first, and how it is called.
PROGRAMS = {
    "run_prompt": ("choose_device", ["Why?"]),
    "chat": ("choose_device", []),
    "download_weights": ("resolve", []),
    "bench": ("choose_device", []),
    "parity": ("read_prompts", ["record"]),
}


def ended(
    program: str, error: BaseException, monkeypatch: pytest.MonkeyPatch, *options: str
) -> Any:
    """The program's result when what it calls first raises this."""

    def fail(*_: object, **__: object) -> None:
        raise error

    module = importlib.import_module(program)
    first, arguments = PROGRAMS[program]
    monkeypatch.setattr(module, first, fail)
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command()(module.main)
    return CliRunner().invoke(app, [*arguments, *options])


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unforeseen_error_is_one_line_and_status_1(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ended(program, ZeroDivisionError("[red]boom"), monkeypatch)
    assert done.exit_code == 1
    assert done.stderr == (
        "internal error: ZeroDivisionError: [red]boom; to see where, run it again with --debug\n"
    )
    assert done.stdout == ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_debug_it_is_the_whole_traceback(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ended(program, ZeroDivisionError("boom"), monkeypatch, "--debug")
    assert done.exit_code == 1
    traceback, _, message = done.stderr.rpartition("\ninternal error: ")
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert "in fail\n    raise error\n" in traceback
    assert message == "ZeroDivisionError: boom\n"


@pytest.mark.parametrize("program", PROGRAMS)
def test_wrong_input_is_status_2_and_has_a_traceback_with_debug_alone(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = TokenizerError("the file is damaged: fetch it again.")
    plain = ended(program, error, monkeypatch)
    assert (plain.exit_code, plain.stderr) == (2, f"error: {error}\n")
    debugged = ended(program, error, monkeypatch, "--debug")
    assert debugged.exit_code == 2
    assert "Traceback" in debugged.stderr
    assert debugged.stderr.endswith(f"\nerror: {error}\n")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MemoryError(), 1, "error: out of memory (nothing is left). Ask for less"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.BadParameter("give another"), 2, "give another"),
    ],
    ids=["memory", "ctrl-c", "option"],
)
def test_foreseen_ends_are_told_apart(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ended("run_prompt", error, monkeypatch)
    assert done.exit_code == status
    assert said in done.stderr
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_program_adds_to_wrong_input_is_wrong_input() -> None:
    with pytest.raises(SystemExit) as ended, console.clear_errors(LookupError):
        raise KeyError("x")
    assert ended.value.code == console.EXIT_WRONG_INPUT
    with pytest.raises(SystemExit) as ended, console.clear_errors():
        raise KeyError("x")
    assert ended.value.code == console.EXIT_FAILURE


def test_a_message_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    error = TokenizerError("\x1b[2J\x07Grüße\r\u202e\ud800\n世界.")
    done = ended("run_prompt", error, monkeypatch)
    assert done.stderr == "error: \\x1b[2J\\x07Grüße\\r\\u202e\\ud800\n世界.\n"
    assert "\x1b" not in ended("run_prompt", error, monkeypatch, "--debug").stderr
