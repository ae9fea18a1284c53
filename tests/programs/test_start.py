"""How programs start: as scripts or verbs, without torch where nothing is computed."""

import subprocess
import sys
from typing import get_args

import pytest

from augur.attention_choice import AttentionName
from augur.conversation import WhenFull
from augur.devices import DTypeName
from augur_apps import option_types
from augur_apps.main import PROGRAMS
from program_run import APPS, COMPUTING, run_in_process

SAYS_NO = "import sys; sys.modules['torch'] = None; sys.argv = {argv}; {start}"


def started_without_torch(start: str, *argv: str) -> subprocess.CompletedProcess[str]:
    code = SAYS_NO.format(argv=list(argv), start=start)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("program", sorted(PROGRAMS.values()))
def test_help_does_not_wait_for_torch(program: str):
    start = f"from augur_apps.main import start; start({program!r})"
    done = started_without_torch(start, program, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_a_slip_in_an_option_does_not_wait_for_torch():
    start = "from augur_apps.main import start; start('run_prompt')"
    done = started_without_torch(start, "run_prompt", "Why?", "--max-new-tokens", "-3")
    assert done.returncode == 2
    assert "max-new-tokens" in done.stderr


def test_each_program_is_a_verb_of_augur():
    start = "from augur_apps.main import augur; augur()"
    done = started_without_torch(start, "augur", "--help")
    assert done.returncode == 0, done.stderr
    assert all(f" {verb} " in done.stdout for verb in PROGRAMS)
    assert sorted(PROGRAMS.values()) == sorted(path.stem for path in APPS.glob("*.py"))


@pytest.mark.gate
def test_a_verb_is_the_program(tiny_folder):
    asked = ["Why?", "--model", str(tiny_folder), *COMPUTING, "--max-new-tokens", "4"]
    start = "from augur_apps.main import augur; augur()"
    code = f"import sys; sys.argv = {['augur', 'run', *asked]}; {start}"
    verb = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert verb.stdout == run_in_process("run_prompt.py", *asked).stdout


def test_the_command_line_offers_what_the_library_has():
    for offered, known in (
        (option_types.AttentionName, AttentionName),
        (option_types.DTypeName, DTypeName),
        (option_types.WhenFull, WhenFull),
    ):
        assert get_args(offered) == get_args(known)
