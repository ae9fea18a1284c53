"""Measure every optimisation: what it gains, and what it costs in exactness."""

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import augur_apps.option_types as option
from augur.devices import DTypeName, choose_device
from augur.loading import read_config
from augur.sources import resolve_model
from augur_apps.console import (
    EXIT_FAILURE,
    Debug,
    clear_errors,
    progress_bars,
    say_error,
    stderr,
)
from augur_apps.output_paths import OutputPathError, check_output_file, check_output_folder
from augur_bench.bench_object import as_json, bench_object, run_environment
from augur_bench.errors import BenchError, RungFailedError
from augur_bench.machine_limits import LimitReadings
from augur_bench.measure import Reading, measure_round, turned
from augur_bench.peers import PeerName
from augur_bench.progress import Say, progress
from augur_bench.reference import make_reference
from augur_bench.rung import Rung
from augur_bench.rung_choice import choose_pairs, choose_rungs
from augur_bench.settings import Settings
from augur_bench.sweep import SweepName, run_sweeps, sweep_lengths
from augur_bench.tables import WIDTH, print_result
from augur_bench.work import ModelSize
from augur_bench.workload import WARM_UP_TOKENS, Workload
from augur_proof.errors import ProofError
from augur_tok import Tokenizer
from augur_weights import DEFAULT_MODEL, Checkpoint

# Of a system's shutdown, and of a terminal that is closed, which not every system has.
_ENDING_SIGNALS = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


app = typer.Typer(add_completion=False)


@app.command()
def main(
    model: Annotated[str, typer.Option(help=option.MODEL_HELP)] = DEFAULT_MODEL,
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
        typer.Option(help="A Python file whose RUNGS, a list of augur_bench.rung.Rung, join in."),
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
    device: Annotated[
        str | None, typer.Option(help="cuda, cuda:1, mps or cpu; left out, the first there is.")
    ] = None,
    dtype: Annotated[DTypeName, typer.Option(help="Of the rungs that name none.")] = "float32",
    against: Annotated[
        PeerName | None, typer.Option(help="Measure this engine beside ours, in turns.")
    ] = None,
    sweep: Annotated[
        list[SweepName] | None,
        typer.Option(help="Growth with this length, cached against uncached. May be repeated."),
    ] = None,
    sweep_at: Annotated[
        str | None, typer.Option(metavar="N,N,N", help="The lengths of the sweep.")
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
    with _clear_errors(debug), tempfile.TemporaryDirectory(prefix="augur-bench-") as scratch:
        if sweep_at is not None and not sweep:
            raise BenchError("--sweep-at belongs to --sweep; name a sweep, or leave it out")
        _check_outputs(json_to, report)
        groups = choose_pairs(choose_rungs(rungs, rungs_from), against)
        chosen_device = choose_device(device)
        with progress_bars() as bars:
            folder = resolve_model(model, progress=bars)
        size = ModelSize(read_config(Checkpoint(folder)))
        settings = Settings(
            folder=folder,
            device=str(chosen_device),
            dtype=dtype,
            threads=threads,
            workload=Workload.of(Tokenizer.from_folder(folder), prompt_tokens),
            vocab_size=size.config.vocab_size,
            max_new_tokens=max_new_tokens,
            check_tokens=check_tokens,
            rounds=rounds,
            repeats=repeats,
            rung_seconds=rung_seconds,
            rungs_from=rungs_from,
            scratch=Path(scratch),
        )
        settings.workload.check_fits(size.config, max(max_new_tokens, WARM_UP_TOKENS), check_tokens)
        lengths = {
            name: sweep_lengths(name, _numbers(sweep_at), settings, size) for name in sweep or []
        }
        result = _measure(model, settings, size, groups, lengths)
        _show(result, json_to, report)


def _measure(
    model: str,
    settings: Settings,
    size: ModelSize,
    groups: list[tuple[Rung, ...]],
    lengths: dict[SweepName, list[int]],
) -> dict[str, Any]:
    """Run everything that was asked for."""
    dtypes = {settings.dtype_of(rung) for group in groups for rung in group}
    with progress(stderr) as say, settings.worker("limits") as limits_worker:
        environment = run_environment(limits_worker.ask("environment"))
        limits = LimitReadings(limits_worker, dtypes)
        readings = _climb(settings, groups, limits, say)
        sweeps = run_sweeps(lengths, settings, size, say)
        return bench_object(model, settings, size, environment, limits.best(), readings, sweeps)


def _climb(
    settings: Settings, groups: list[tuple[Rung, ...]], limits: LimitReadings, say: Say
) -> list[list[Reading]]:
    """The ladder, up and down; the machine's limits are read before each of its rungs."""
    workload = settings.workload
    capacity = max(
        len(workload.prompt_token_ids) + max(settings.max_new_tokens, WARM_UP_TOKENS),
        max(map(len, workload.check_prompts)) + settings.check_tokens,
    )
    reference = make_reference(settings, capacity, say)
    readings = [[Reading(rung) for rung in group] for group in groups]
    for number in range(settings.rounds):
        for group in turned(readings, number):
            say("machine: reading its limits")
            limits.read()
            measure_round(turned(group, number), settings, capacity, reference, say)
    return readings


def _check_outputs(json_to: str | None, report: Path | None) -> None:
    """Minutes of measuring are not to end in a place that nothing can be written to."""
    if json_to is not None and json_to != "-":
        check_output_file("--json", Path(json_to))
    if report is not None:
        check_output_folder("--report", report)


def _show(result: dict[str, Any], json_to: str | None, report: Path | None) -> None:
    with ExitStack() as outputs:  # carries out each, whatever becomes of the others
        if report is not None:
            outputs.callback(_write_report, result, report)
        if json_to is not None and json_to != "-":
            outputs.callback(Path(json_to).write_text, as_json(result), encoding="utf-8")
        if json_to == "-":
            print(as_json(result), end="")
        else:
            console = Console(highlight=False, emoji=False)
            if not console.is_terminal:
                console = Console(highlight=False, emoji=False, width=WIDTH)
            print_result(console, result)


def _write_report(result: dict[str, Any], folder: Path) -> None:
    from augur_bench.report import write_report  # noqa: PLC0415  (matplotlib takes a second)

    write_report(result, folder)
    stderr.print(f"report: {folder / 'report.md'}", markup=False)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise BenchError(f"--sweep-at {text}: expected whole numbers, such as 16,32,64") from error


@contextmanager
def _clear_errors(debug: bool) -> Iterator[None]:
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
