"""How a program starts: as a script of `apps/`, or as a verb of `augur`."""

import signal
import sys
from importlib import import_module

import typer

# Each verb, with the module that holds the program and the script's name in `apps/`.
PROGRAMS = {
    "run": "run_prompt",
    "chat": "chat",
    "bench": "bench",
    "parity": "parity",
    "download": "download_weights",
    "gpu-check": "gpu_check",
}


def start(program: str) -> None:
    """Run one program with the process's arguments, as its script does."""
    _leave_ctrl_c_to_the_system()
    _app(program)()


def augur() -> None:
    """Run the program that the first argument names: `augur run "Why is the sky blue?"`."""
    _leave_ctrl_c_to_the_system()
    app = typer.Typer(no_args_is_help=True, add_completion=False)
    app.callback()(_augur)
    asked = PROGRAMS.keys() & set(sys.argv[1:2]) or PROGRAMS  # no other has to be imported
    for verb in filter(asked.__contains__, PROGRAMS):
        module = import_module(f"augur_apps.{PROGRAMS[verb]}")
        if hasattr(module, "main"):
            app.command(verb)(module.main)
        else:
            app.add_typer(module.app, name=verb)
    app()


def _augur() -> None:
    """The oracle for Qwen inference."""


def _app(program: str) -> typer.Typer:
    app: typer.Typer = import_module(f"augur_apps.{program}").app
    return app


def _leave_ctrl_c_to_the_system() -> None:
    # There is nothing to keep yet: while the modules load, Ctrl-C just ends the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
