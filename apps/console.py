"""What the programs share in talking to a person: progress, messages, exit statuses."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from augur_gen import GenerationError
from augur_model import ModelError
from augur_tok import TokenizerError
from augur_weights import Progress, WeightsError
from devices import DeviceError
from engine import PromptError

EXIT_FAILURE = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130
"""As shells report a program that Ctrl-C ended: 128 + SIGINT."""

MODEL_HELP = "Hub id (org/name or org/name@revision), folder, .gguf file, or the embedded default."

# stdout belongs to the result; everything said to the person goes here.
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


_WRONG_INPUT = (
    WeightsError,
    TokenizerError,
    ModelError,
    GenerationError,
    DeviceError,
    PromptError,
)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn the packages' errors into one message and exit status 2, and Ctrl-C into 130."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # A program may have set this while its modules were loading; from here on it is handled.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.stdout is None:
        stderr.print("error: stdout is closed; there is nowhere to write to", style="red")
        raise SystemExit(EXIT_FAILURE)
    # Text in any script goes out, whatever the locale.
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        yield
    except _WRONG_INPUT as error:
        stderr.print(f"error: {error}", style="red", markup=False)
        raise SystemExit(EXIT_WRONG_INPUT) from error
    except KeyboardInterrupt as error:
        stderr.print("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from error
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`): nothing is wrong, there is no one to tell.
        sys.stderr.close()
        raise SystemExit(EXIT_FAILURE) from None
    except OSError as error:
        stderr.print(f"error: {error}", style="red", markup=False)
        _drop_stdout()
        raise SystemExit(EXIT_FAILURE) from error


def _drop_stdout() -> None:
    """Let nothing that is still buffered raise again when Python ends."""
    with suppress(OSError):
        sys.stdout.close()


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Progress bars on stderr, one for each stage that is reported."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    bars = RichProgress(*columns, console=stderr)
    tasks: dict[str, TaskID] = {}

    def show(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            bars.start()  # not before: without bars it would print an empty line
            tasks[stage] = bars.add_task(stage, total=total)
        bars.update(tasks[stage], completed=done, total=total)

    try:
        yield show
    finally:
        if tasks:
            bars.stop()
