"""How programs end on what nobody foresaw: one line, or with --debug the whole traceback."""

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from augur.batch.errors import BatchError
from augur_apps import console
from augur_tok import TokenizerError


@pytest.fixture(autouse=True)
def a_console_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a console cannot write it keeps, and would write into the output of a later test."""
    fresh = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
    monkeypatch.setattr(console, "stderr", fresh)


# What each program calls first, and how it is called.
PROGRAMS = {
    "run_prompt": ("augur.devices.choose_device", ["Why?"]),
    "chat": ("augur.devices.choose_device", []),
    "download_weights": ("augur.sources.resolve_model", []),
    "bench": ("augur_bench.choose_rungs", []),
    "parity": ("augur_proof.read_prompts", ["record"]),
}


def ended(
    program: str, error: BaseException, monkeypatch: pytest.MonkeyPatch, *options: str
) -> Any:
    """The program's result when what it calls first raises this."""

    def fail(*_: object, **__: object) -> None:
        raise error

    module = importlib.import_module(f"augur_apps.{program}")
    first, arguments = PROGRAMS[program]
    monkeypatch.setattr(first, fail)
    return CliRunner().invoke(module.app, [*arguments, *options])


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
    assert traceback.startswith("  Traceback (most recent call last):\n")
    assert "in fail\n      raise error\n" in traceback
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
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            1,
            "error: out of memory ([enforce fail] DefaultCPUAllocator",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.BadParameter("give another"), 2, "give another"),
    ],
    ids=["memory", "torch-memory", "ctrl-c", "option"],
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
    assert done.stderr == "error: \\x1b[2J\\x07Grüße\\r\\u202e\\ud800\\n世界.\n"
    assert "\x1b" not in ended("run_prompt", error, monkeypatch, "--debug").stderr


@pytest.mark.parametrize("debug", [[], ["--debug"]])
@pytest.mark.parametrize("kind", [TokenizerError, ZeroDivisionError])
def test_a_message_is_one_line_and_forges_no_other(
    kind: type[Exception], debug: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ended("run_prompt", kind("a\nerror: all is well"), monkeypatch, *debug)
    messages = [line for line in done.stderr.splitlines() if not line.startswith("  ")]
    assert len(messages) == 1
    assert "a\\nerror: all is well" in messages[0]
    assert bool(debug) == ("Traceback" in done.stderr)


def test_a_message_is_bounded_and_keeps_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    error = TokenizerError("x" * 1_000_000 + ": fetch it again.")
    done = ended("run_prompt", error, monkeypatch)
    assert len(done.stderr) <= 2001
    assert done.stderr.startswith("error: xxx")
    assert done.stderr.endswith("xxx: fetch it again.\n")
    with_traceback = ended("run_prompt", error, monkeypatch, "--debug").stderr
    assert all(len(line) <= 2002 for line in with_traceback.splitlines())


def test_an_error_of_several_lines_gives_each_of_them() -> None:
    error = BatchError("p.jsonl:1: bad\nid", "p.jsonl:3: worse", "... and 2 more")
    told = console.stderr.capture()
    with pytest.raises(SystemExit), told, console.clear_errors(BatchError):
        raise error
    assert told.get() == "error: p.jsonl:1: bad\\nid\np.jsonl:3: worse\n... and 2 more\n"


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    ("error", "status"), [(TokenizerError("x"), 2), (ZeroDivisionError("x"), 1)], ids=["2", "1"]
)
def test_the_status_is_the_same_where_stderr_is_closed(
    error: Exception, status: int, debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit) as ended, console.clear_errors(debug=debug):
        raise error
    assert ended.value.code == status


def test_a_broken_pipe_where_stderr_is_closed_is_status_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit) as ended, console.clear_errors():
        raise BrokenPipeError
    assert ended.value.code == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("debug", [False, True])
def test_the_status_is_the_same_where_stderr_is_full(
    debug: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")
    monkeypatch.setattr(sys, "stderr", full)
    with pytest.raises(SystemExit) as ended, console.clear_errors(debug=debug):
        raise TokenizerError("x")
    assert ended.value.code == 2
    with suppress(OSError):
        full.close()
