"""Run a program of apps/ as a person would, or in this process, which saves loading torch."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

# What a program computes with by default is the machine's.
COMPUTING = ("--device", "cpu", "--dtype", "float32")
APPS = Path(__file__).resolve().parents[1] / "apps"


def run_program(
    program: str, *arguments: str | Path, stdin: str | bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Give what `apps/<program>` printed and its exit status.

    Args:
        program: the file's name.
        *arguments: its arguments.
        stdin: what it reads; nothing if left out.
        **environment: variables set beside the present ones.
    """
    done = subprocess.run(
        [sys.executable, APPS / program, *arguments],
        input=(stdin.encode() if isinstance(stdin, str) else stdin) or b"",
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,  # tiny models need no more
        timeout=120,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def run_in_process(
    program: str, *arguments: str | Path, stdin: str | bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """As `run_program`, by calling the program's `main` in this process."""
    app: typer.Typer = importlib.import_module(f"augur_apps.{program.removesuffix('.py')}").app
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    unforeseen = done.exception is not None and not isinstance(done.exception, SystemExit)
    if unforeseen:
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
