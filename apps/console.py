"""What the programs share in talking to a person: progress, messages, exit statuses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from augur_gen import GenerationError
from augur_model import ModelError
from augur_tok import TokenizerError
from augur_weights import Progress, WeightsError
from devices import DeviceError

EXIT_FAILURE = 1
EXIT_WRONG_INPUT = 2
EXIT_INTERRUPTED = 130
"""As shells report a program that Ctrl-C ended: 128 + SIGINT."""

MODEL_HELP = "Hub id (org/name or org/name@revision), folder, .gguf file, or the embedded default."

# stdout belongs to the result; everything said to the person goes here.
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn the packages' errors into one message and exit status 2, and Ctrl-C into 130."""
    try:
        yield
    except (WeightsError, TokenizerError, ModelError, GenerationError, DeviceError) as error:
        stderr.print(f"error: {error}", style="red", markup=False)
        raise SystemExit(EXIT_WRONG_INPUT) from error
    except KeyboardInterrupt as error:
        stderr.print("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from error
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`): nothing is wrong, there is no one to tell.
        sys.stderr.close()
        raise SystemExit(EXIT_FAILURE) from None


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """Progress bars on stderr, one for each stage that is reported."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=stderr) as bars:
        tasks = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show
