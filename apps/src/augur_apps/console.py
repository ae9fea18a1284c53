"""What the programs share in talking to a person: progress, messages, exit statuses."""

import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from augur_apps.option_types import spelled
from augur_files import one_line

EXIT_FAILURE = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130
"""As shells report a program that Ctrl-C ended: 128 + SIGINT."""

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
"""Every program has it, and hands it to `clear_errors`."""

# stdout belongs to the result; everything said to the person goes here. No emoji: rich would make
# one of the ":x:" in "--device cpu:x: ...".
stderr = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


@contextmanager
def clear_errors(*wrong_input: type[Exception], debug: bool = False) -> Iterator[None]:
    """Turn every error into one message and an exit status.

    Errors of the packages, and those in `wrong_input`, are wrong input: 2. Ctrl-C is 130. All else
    is a failure of ours: 1. With `debug` the traceback goes before the message. A message is one
    line; an error that has a `lines` attribute gives one for each.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # A program may have set this while its modules were loading; from here on it is handled.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.stdout is None:
        stderr.print("error: stdout is closed; there is nowhere to write to", style="red")
        raise SystemExit(EXIT_FAILURE)
    if isinstance(sys.stdout, TextIOWrapper):
        # Text in any script goes out, whatever the locale.
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        yield
    except (typer.BadParameter, typer.Exit, typer.Abort):
        raise  # typer says these itself
    except KeyboardInterrupt as error:
        stderr.print("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from error
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`): nothing is wrong, there is no one to tell.
        if sys.stderr is not None:
            sys.stderr.close()
        raise SystemExit(EXIT_FAILURE) from None
    except Exception as error:
        if isinstance(error, (*_errors_of_packages(), *wrong_input)):
            _say("error: ", error, debug)
            raise SystemExit(EXIT_WRONG_INPUT) from error
        if isinstance(error, OSError):
            _say("error: ", error, debug)
            _drop_stdout()
            raise SystemExit(EXIT_FAILURE) from error
        from augur.memory import is_out_of_memory  # noqa: PLC0415  (it brings torch)

        if is_out_of_memory(error):
            words = str(error).partition("\n")[0] or "nothing is left"
            told = f"out of memory ({words}). Ask for less, or take a smaller model"
            _say("error: ", told, debug)
            raise SystemExit(EXIT_FAILURE) from error
        advice = "" if debug else "; to see where, run it again with --debug"
        _say("internal error: ", f"{type(error).__name__}: {error}{advice}", debug)
        raise SystemExit(EXIT_FAILURE) from error


def say_error(error: object, *, debug: bool = False) -> None:
    """Tell an error, as one line; with `debug` the traceback of the one at hand goes before it."""
    _say("error: ", error, debug)


def _say(kind: str, error: object, debug: bool) -> None:
    """One message, under the traceback of the error at hand if that is asked for."""
    if debug:
        for line in traceback.format_exc().rstrip().split("\n"):
            # Indented, so that no line of what it quotes can be taken for a message.
            _write(f"  {one_line(line)}")
    lines: Iterable[str] = getattr(error, "lines", None) or [told(error)]
    first, *others = lines
    for line in (kind + first, *others):
        _write(one_line(line), style="red")


def told(error: object) -> str:
    """An error's message, its arguments spelled as a person writes them."""
    return str(error.spelled(spelled)) if hasattr(error, "spelled") else str(error)


def _errors_of_packages() -> tuple[type[Exception], ...]:
    # Here, so that what ends before anything is computed does not wait for torch.
    from augur_gen import GenerationError  # noqa: PLC0415
    from augur_model import ModelError  # noqa: PLC0415
    from augur_tok import TokenizerError  # noqa: PLC0415
    from augur_weights import WeightsError  # noqa: PLC0415

    return WeightsError, TokenizerError, ModelError, GenerationError


def _write(line: str, style: str | None = None) -> None:
    with suppress(OSError, ValueError):  # stderr is closed or full: there is no one to tell
        stderr.print(line, style=style, markup=False)


def _drop_stdout() -> None:
    """Let nothing that is still buffered raise again when Python ends."""
    with suppress(OSError):
        sys.stdout.close()


class ProgressBars:
    """Bars on stderr, one for each stage that is reported: a `Progress`, with words beside it."""

    def __init__(self) -> None:
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[words]}", markup=False),
            console=stderr,
        )
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far a stage is."""
        if stage not in self._tasks:
            self._bars.start()  # not before: without bars it would print an empty line
            self._tasks[stage] = self._bars.add_task(stage, total=total, words="")
        self._bars.update(self._tasks[stage], completed=done, total=total)

    def tell(self, stage: str, words: str) -> None:
        """Say something beside the bar of a stage that was begun."""
        self._bars.update(self._tasks[stage], words=words)

    def stop(self) -> None:
        """Leave them as they are."""
        if self._tasks:
            self._bars.stop()


@contextmanager
def progress_bars() -> Iterator[ProgressBars]:
    """Progress bars that are stopped at the end."""
    bars = ProgressBars()
    try:
        yield bars
    finally:
        bars.stop()
