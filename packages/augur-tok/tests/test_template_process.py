"""The process in which templates run: alone, bounded, and gone when it is no longer needed."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from augur_tok import ChatTemplateError, template_process
from augur_tok.template_process import TemplateProcess

ENDLESS = "{% for n in range(100000) %}" * 3 + "{% endfor %}" * 3
# Texts compared character by character: long work in one step, which nothing counts.
LONG_WORK = (
    "{% set a = 'a' * 90000 %}{% set b = 'a' * 45000 ~ 'b' ~ 'a' * 9999 %}"
    "{% for n in range(9999) %}{% set x = a.rfind(b) %}{% endfor %}"
)
WAIT_S = 60  # for what takes a moment, on a machine with other work


def render(process: TemplateProcess, source: str, **context: Any) -> str:
    moment = datetime(2024, 2, 29).isoformat()
    return process.render(context, source=source, named={}, special=(), mark="", now=moment)


def pid(process: TemplateProcess) -> int:
    assert process._process
    return process._process.pid


def is_alive(number: int) -> bool:
    """Whether there is such a process, and no zombie that only waits to be counted."""
    try:
        return ") Z " not in Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except OSError:
        return False


def ends(number: int) -> bool:
    end_s = time.monotonic() + WAIT_S
    while is_alive(number) and time.monotonic() < end_s:
        time.sleep(0.01)
    return not is_alive(number)


def in_python(program: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """What a program with a TemplateProcess `process` and `render(source)` does."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=WAIT_S, check=False, **options,
    )  # fmt: skip


PROGRAM = """
import os, signal, sys, threading, time
from augur_tok.template_process import TemplateProcess
process = TemplateProcess()
def render(source="{{ x }}", **context):
    named = dict(named={}, special=(), mark="", now="2024-02-29T00:00:00")
    return process.render({"x": "ok", **context}, source=source, **named)
"""


@pytest.mark.gate
def test_one_process_answers_a_thousand_times_and_grows_no_larger() -> None:
    process = TemplateProcess()

    def resident_kb() -> int:
        status = Path(f"/proc/{pid(process)}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0])

    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    assert render(process, "{{ x }}", x="a" * 100_000) == "a" * 100_000
    first, before_kb, files = pid(process), resident_kb(), opened()
    for number in range(1_000):
        assert render(process, "{{ x }}{{ n }}", x="a" * 1_000, n=number)[1_000:] == str(number)
    assert pid(process) == first
    assert resident_kb() < before_kb + 10_000
    assert opened() == files


def test_it_ends_with_its_object() -> None:
    process = TemplateProcess()
    render(process, "a")
    number = pid(process)
    del process
    assert ends(number)


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_with_python_however_python_ends(end: str) -> None:
    done = in_python(f"render(); print(process._process.pid, flush=True); {end}")
    assert ends(int(done.stdout))


@pytest.mark.gate
def test_python_killed_while_a_template_runs_leaves_no_process_behind() -> None:
    program = f"""
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    render(); print(process._process.pid, flush=True)
    render({LONG_WORK!r})
    """
    assert ends(int(in_python(program).stdout))


def test_two_threads_get_each_its_own_text() -> None:
    process, wrong = TemplateProcess(), []

    def ask(name: str) -> None:
        for number in range(100):
            expected = f"{name}{number}"
            if render(process, "{{ x * 1000 }}", x=expected) != expected * 1000:
                wrong.append(expected)

    threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_after_a_fork_each_has_its_own() -> None:
    done = in_python(
        """
        render()
        first = process._process.pid
        other = os.fork()
        if other == 0:
            assert render(y="child") == "ok" and process._process.pid != first
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 7
        assert render() == "ok" and process._process.pid == first
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_closed_standard_stream_is_no_matter(descriptor: int) -> None:
    program = f"os.close({descriptor}); sys.exit(render() == 'ok' and 7)"
    assert in_python(program).returncode == 7


@pytest.mark.gate
def test_blocked_and_ignored_signals_are_not_handed_on() -> None:
    done = in_python(
        f"""
        from augur_tok import template_process
        template_process.SECONDS = 1
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        try:
            render({LONG_WORK!r})
        except ValueError as error:
            print(error)
        """
    )
    assert "takes longer than 1 s of the processor" in done.stdout


def test_a_process_that_dies_between_two_chats_is_started_again() -> None:
    process = TemplateProcess()
    render(process, "a")
    os.kill(pid(process), signal.SIGKILL)
    assert ends(pid(process))
    assert render(process, "b") == "b"


def test_a_process_that_dies_midway_is_an_error_and_started_again() -> None:
    process = TemplateProcess()
    render(process, "a")
    threading.Timer(0.3, os.kill, (pid(process), signal.SIGKILL)).start()
    with pytest.raises(ChatTemplateError, match=r"chat template ended its process \(-9\)"):
        render(process, LONG_WORK)
    assert render(process, "b") == "b"


def test_the_clock_ends_what_the_processors_time_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_process, "BY_THE_CLOCK", 0.1)
    process = TemplateProcess()
    with pytest.raises(ChatTemplateError, match="ended its process"):
        render(process, LONG_WORK)
    monkeypatch.undo()
    assert render(process, "b") == "b"


def test_ctrl_c_ends_a_rendering_and_the_next_gets_its_own_text() -> None:
    process = TemplateProcess()
    render(process, "a")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            render(process, LONG_WORK)
    finally:
        signal.signal(signal.SIGINT, before)
    assert render(process, "b") == "b"


def test_a_terminals_ctrl_c_does_not_reach_it() -> None:
    process = TemplateProcess()
    render(process, "a")
    assert os.getpgid(pid(process)) != os.getpgid(0)


@pytest.mark.parametrize(
    ("change", "value"), [("executable", ""), ("executable", "/no/such"), ("frozen", True)]
)
def test_without_a_python_to_start_raw_text_is_advised(
    monkeypatch: pytest.MonkeyPatch, change: str, value: object
) -> None:
    monkeypatch.setattr(sys, change, value, raising=False)
    with pytest.raises(ChatTemplateError, match=r"none can be started .* Use raw text"):
        render(TemplateProcess(), "a")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 3_000_000])
def test_texts_of_any_size_come_whole(size: int) -> None:
    text = "é" * size
    assert render(TemplateProcess(), "{{ x }}", x=text) == text


@pytest.mark.parametrize(
    "text", ["T\0\0\0\0\0\0\0\x01a", "E" * 9, "\x00" * 40, "{{ x }}", "\ufeff\r\n\x1b[2J"]
)
def test_a_text_that_looks_like_an_answer_is_a_text(text: str) -> None:
    process = TemplateProcess()
    for _ in range(2):
        assert render(process, "{{ x }}", x=text) == text


def test_it_can_open_no_file_and_no_socket() -> None:
    done = in_python(
        """
        import socket
        from augur_tok import template_child
        template_child._confine()
        for opened in (lambda: open("/etc/passwd"), lambda: open("x", "w"), socket.socket):
            try:
                opened()
            except OSError as error:
                print(error.errno)
        """
    )
    assert done.stdout.split() == ["24", "24", "24"]  # too many open files


def test_values_reach_a_template_as_they_are() -> None:
    value = [{"a": (1, None), 2: [True, 1.5]}, "é😀", 2**63]
    assert render(TemplateProcess(), "{{ x }}", x=value) == str(value)


def test_an_executable_that_is_no_python_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho an answer that is none of ours\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ChatTemplateError, match="chat template ended its process"):
        render(TemplateProcess(), "a")
