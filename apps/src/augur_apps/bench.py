"""Measure every optimisation: what it gains, and what it costs in exactness."""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import augur_apps.option_types as option
from augur_apps.console import (
    EXIT_FAILURE,
    Debug,
    clear_errors,
    progress_bars,
    say_error,
    stderr,
)
from augur_apps.output_paths import OutputPathError, check_output_file, check_output_folder

if TYPE_CHECKING:
    from augur_bench.sheets import Sheet

# As augur_bench has them; typer takes no list of literals.
PeerName = Literal["transformers"]
Sweep = StrEnum("Sweep", {"prompt": "prompt", "new_tokens": "new-tokens"})

# Of a result that does not go to a terminal, which has its own.
WIDTH = 100
# Of a system's shutdown, and of a terminal that is closed, which not every system has.
_ENDING_SIGNALS = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]

app = typer.Typer(add_completion=False)


@app.command()
def main(
    model: option.Model = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="In each timed run.")] = 32,
    prompt_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Length of the timed prompt; left out, the last reference one."),
    ] = None,
    rungs: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="These rungs alone; left out, all.")
    ] = None,
    rungs_from: Annotated[
        Path | None,
        typer.Option(help="A Python file whose RUNGS, a list of augur_bench.Rung, join in."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Processes of each rung, one after the other.")
    ] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs in each process.")] = 2,
    rung_seconds: Annotated[
        float,
        typer.Option(min=0, help="Time for all runs of a rung, which are two at the least."),
    ] = 30,
    check_tokens: Annotated[
        int,
        typer.Option(min=1, help="New tokens of each reference prompt whose logits are compared."),
    ] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of torch; left out, its own choice.")
    ] = None,
    device: option.Device = None,
    dtype: Annotated[
        option.DTypeName, typer.Option(help="Of the rungs that name none.")
    ] = "float32",
    against: Annotated[
        PeerName | None, typer.Option(help="Measure this engine beside ours, in turns.")
    ] = None,
    sweep: Annotated[
        list[Sweep] | None,
        typer.Option(help="Growth with this length, cached against uncached. May be repeated."),
    ] = None,
    sweep_at: Annotated[
        str | None, typer.Option(metavar="N,N,N", help="The lengths of the sweep.")
    ] = None,
    sequences: Annotated[
        str | None,
        typer.Option(metavar="N,N,N", help="Throughput of so many sequences at once, in each way."),
    ] = None,
    json_to: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Everything, as one object.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="A folder for report.md and its figures.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure the ladder of optimisations on a Qwen model, each rung in its own process."""
    values = dict(locals())
    import augur_bench as bench  # noqa: PLC0415  (what is only asked for help waits for no torch)
    from augur.devices import choose_device  # noqa: PLC0415
    from augur.sources import resolve_model  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    with _clear_errors(debug), tempfile.TemporaryDirectory(prefix="augur-bench-") as scratch:
        if sweep_at is not None and not sweep:
            raise bench.BenchError("--sweep-at belongs to --sweep; name a sweep, or leave it out")
        _check_outputs(json_to, report)
        numbers = _numbers("--sequences", sequences) or []
        if min(numbers, default=1) < 1:
            raise bench.BenchError(f"--sequences {sequences}: expected 1 or more of them")
        chosen_rungs = bench.choose_rungs(rungs, rungs_from)
        groups = bench.choose_pairs(chosen_rungs, against)
        chosen_device = choose_device(device)
        with progress_bars() as bars:
            folder = resolve_model(model, progress=bars)
        given = "dtype", "threads", "max_new_tokens", "check_tokens", "rounds", "repeats"
        settings = bench.Settings.of(
            folder.resolve(),
            Path(scratch),
            prompt_tokens,
            device=str(chosen_device),
            rungs_from=None if rungs_from is None else rungs_from.resolve(),
            rung_seconds=rung_seconds,
            **{name: values[name] for name in given},
        )
        asked, names = _numbers("--sweep-at", sweep_at), [one.value for one in sweep or []]
        lengths = {one: bench.sweep_lengths(one, asked, settings) for one in names}
        asked_many = [bench.questions(number, settings) for number in sorted(set(numbers))]
        many = bench.throughput_rungs(chosen_rungs, against)
        with _progress() as say:
            climbed = bench.climb(settings, groups, say)
            sweeps = bench.run_sweeps(lengths, settings, say)
            throughput = bench.run_throughput(asked_many, many, settings, say)
        name = model or DEFAULT_MODEL
        result = bench.result_object(name, settings, climbed, sweeps, throughput)
        _show(result, json_to, report)


def _check_outputs(json_to: str | None, report: Path | None) -> None:
    """Minutes of measuring are not to end in a place that nothing can be written to."""
    if json_to is not None and json_to != "-":
        check_output_file("--json", Path(json_to))
    if report is not None:
        check_output_folder("--report", report)


def _numbers(name: str, text: str | None) -> list[int] | None:
    from augur_bench import BenchError  # noqa: PLC0415

    try:
        return None if text is None else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise BenchError(f"{name} {text}: expected whole numbers, such as 16,32,64") from error


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Say what is done: on a terminal one line that changes, elsewhere a line for each thing."""
    started_s = time.perf_counter()

    def line(text: str) -> str:
        return f"{time.perf_counter() - started_s:6.0f} s  {text}"

    if stderr.is_terminal:
        with stderr.status("") as status:
            yield lambda text: status.update(line(text))
    else:
        yield lambda text: stderr.print(line(text), markup=False)


def _show(result: dict[str, Any], json_to: str | None, report: Path | None) -> None:
    from augur_bench import as_json, write_report  # noqa: PLC0415

    with ExitStack() as outputs:  # carries out each, whatever becomes of the others
        if report is not None:
            outputs.callback(stderr.print, f"report: {report / 'report.md'}", markup=False)
            outputs.callback(write_report, result, report)
        if json_to is not None and json_to != "-":
            outputs.callback(Path(json_to).write_text, as_json(result), encoding="utf-8")
        if json_to == "-":
            print(as_json(result), end="")
        else:
            console = Console(highlight=False, emoji=False)
            console.width = console.width if console.is_terminal else WIDTH
            print_result(console, result)


def print_result(console: Console, result: dict[str, Any]) -> None:
    """Print everything; `result` is what `result_object` gave."""
    from augur_bench.report import footnotes, heading_lines, limits_lines  # noqa: PLC0415
    from augur_bench.sheets import all_sheets  # noqa: PLC0415

    console.print(*heading_lines(result), "", sep="\n", markup=False)
    for sheet in all_sheets(result):
        # Not cropped: on a terminal that is too narrow all the same, lines run over.
        console.print(_table(sheet, gap=2 if console.width >= WIDTH else 1), "", crop=False)
    console.print(*limits_lines(result), *footnotes(result), sep="\n", markup=False)


def _table(sheet: "Sheet", gap: int) -> Table:
    table = Table(
        title=sheet.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap - 1, 0, 0),
    )
    for column, cells in zip(sheet.columns, zip(*sheet.cells, strict=True), strict=True):
        # On a narrow terminal cells break between words, and no word is cut.
        lines = [line for text in (column.heading, *cells) for line in text.splitlines()]
        word = max(len(word) for line in lines for word in line.split())
        table.add_column(
            column.heading,
            justify="left" if column.is_words else "right",
            no_wrap=word == max(map(len, lines)),
            min_width=word,
        )
    for row in sheet.cells:
        table.add_row(*map(Text, row))
    return table


@contextmanager
def _clear_errors(debug: bool) -> Iterator[None]:
    from augur_bench import BenchError, RungFailedError  # noqa: PLC0415
    from augur_proof.errors import ProofError  # noqa: PLC0415

    with clear_errors(BenchError, OutputPathError, ProofError, debug=debug), _clean_end():
        try:
            yield
        except RungFailedError as error:
            sys.stdout.flush()
            say_error(error, debug=debug)
            raise SystemExit(EXIT_FAILURE) from error


@contextmanager
def _clean_end() -> Iterator[None]:
    """Let a signal end the program as an error does: workers ended, temporary files gone."""
    before = {number: signal.getsignal(number) for number in _ENDING_SIGNALS}
    taken = [number for number, handler in before.items() if handler != signal.SIG_IGN]  # nohup

    def end(number: int, _frame: object) -> None:
        for other in taken:
            signal.signal(other, signal.SIG_IGN)  # a second one must not break the ending off
        sys.exit(128 + number)  # as shells report it

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
