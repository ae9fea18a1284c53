"""Prove that augur computes what transformers does: record, check, trace."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import augur_apps.option_types as option
from augur.attention_choice import AttentionName
from augur.devices import DTypeName
from augur_apps.console import (
    EXIT_FAILURE,
    Debug,
    clear_errors,
    progress_bars,
    say_error,
)
from augur_apps.output_paths import OutputPathError, check_output_file
from augur_apps.parity_reports.check_report import (
    check_object,
    print_comparisons,
    print_setting,
    print_verdict,
)
from augur_apps.parity_reports.partings_report import print_partings
from augur_apps.parity_reports.trace_report import print_findings, print_trace_setting, trace_object
from augur_model import Ops
from augur_proof.demand import one_op_demand, whole_model_demand
from augur_proof.errors import ProofError
from augur_proof.ground_truth import read_ground_truth, write_ground_truth
from augur_proof.guarded_ops import OpFailedError
from augur_proof.ops_table import load_ops
from augur_proof.prompts import REFERENCE_PROMPTS, read_prompts
from augur_proof.sides import (
    Setting,
    compare_prompts,
    open_candidate,
    referee_record,
    referee_truth,
)
from augur_proof.trace import trace as trace_network
from augur_weights import DEFAULT_MODEL

MAX_NEW_TOKENS = 32

app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False
)
stdout = Console(highlight=False, emoji=False)


def _finite(value: float | None) -> float | None:
    """`min` alone lets infinity pass, which would excuse everything."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no bound, expected a finite number")
    return value


Model = Annotated[str, typer.Option(help=option.MODEL_HELP)]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps; bits are promised on cpu.")]
Attention = Annotated[AttentionName | None, typer.Option(help="augur's.", show_default="eager")]
OpsSpec = Annotated[
    str | None,
    typer.Option(metavar="MODULE:NAME", help="A table of ops (augur_model.Ops) on trial."),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        callback=_finite,
        help="Largest difference allowed.",
        show_default="0 for eager",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def record(
    model: Model = DEFAULT_MODEL,
    prompts: Annotated[
        Path, typer.Option(help="A JSON list of prompts.", show_default="ten prompts")
    ] = REFERENCE_PROMPTS,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="For each prompt.")] = MAX_NEW_TOKENS,
    dtype: Annotated[DTypeName, typer.Option(help="To compute in.")] = "float32",
    device: Device = "cpu",
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path(
        "ground-truth.safetensors"
    ),
    debug: Debug = False,
) -> None:
    """Write a ground-truth file: transformers' ids, greedy tokens and first logits."""
    with _clear_errors(debug):
        check_output_file("--out", out)
        texts = read_prompts(prompts)
        with progress_bars() as progress:
            truth = referee_truth(Setting(model, dtype, device), texts, max_new_tokens, progress)
        write_ground_truth(out, truth)
        num_tokens = sum(len(answer.generated_ids) for answer in truth.answers)
        print(f"reference     {model}: {truth.made_with.line}")
        print(f"prompts       {len(truth.answers)}, {num_tokens} new tokens")
        print(f"ground truth  {out} ({out.stat().st_size:,} bytes)")


@app.command()
def check(
    model: Annotated[
        str | None, typer.Option(help=option.MODEL_HELP, show_default="the truth's")
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="A ground-truth file.", show_default="transformers, run now"),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="A JSON list of prompts.", show_default="ten prompts")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="For each prompt.", show_default="the truth's, or 32")
    ] = None,
    dtype: Annotated[
        DTypeName | None,
        typer.Option(help="To compute in.", show_default="the truth's, or float32"),
    ] = None,
    device: Device = "cpu",
    attention: Attention = None,
    ops: OpsSpec = None,
    tolerance: Tolerance = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run augur against the truth: same ids, same tokens, largest logit difference, KL."""
    _refuse_both("--truth", truth, "--prompts", prompts)
    with _clear_errors(debug):
        table = _ops_table(ops, attention)
        with progress_bars() as progress:
            if truth is not None:
                expected = read_ground_truth(truth).cut(max_new_tokens)
            else:
                setting = Setting(model or DEFAULT_MODEL, dtype or "float32", device)
                texts = read_prompts(prompts or REFERENCE_PROMPTS)
                expected = referee_truth(setting, texts, max_new_tokens or MAX_NEW_TOKENS, progress)
            reference = expected.made_with
            engine, candidate = open_candidate(
                Setting(model or reference.model, dtype or reference.dtype, device),
                attention or "eager",
                table,
                reference.max_new_tokens,
                progress,
            )
            demand = whole_model_demand(reference, candidate, tolerance)
            found = compare_prompts(engine, expected, demand, progress)
        source = None if truth is None else str(truth)
        if as_json:
            print(json.dumps(check_object(candidate, reference, source, demand, found)))
        else:
            print_setting(stdout, candidate, reference, source, demand)
            print_comparisons(stdout, found)
            print_partings(stdout, found, engine.tokenizer)
            print_verdict(stdout, found)
    if not all(one.held for one in found):
        raise SystemExit(EXIT_FAILURE)


@app.command()
def trace(
    model: Model = DEFAULT_MODEL,
    prompt: Annotated[
        str | None, typer.Option(help="What to feed.", show_default="last of the ten prompts")
    ] = None,
    decode_steps: Annotated[
        int, typer.Option(min=0, help="Cached steps to trace after the prompt.")
    ] = 1,
    dtype: Annotated[DTypeName, typer.Option(help="To compute in.")] = "float32",
    device: Device = "cpu",
    attention: Attention = None,
    ops: OpsSpec = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Another checkpoint for transformers to open.", show_default="the model's"
        ),
    ] = None,
    tolerance: Tolerance = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Find the first module or op whose output differs for the reference's own inputs."""
    with _clear_errors(debug):
        table = _ops_table(ops, attention)
        text = read_prompts()[-1] if prompt is None else prompt
        with progress_bars() as progress:
            reference, passes = referee_record(
                Setting(against or model, dtype, device), text, decode_steps, progress
            )
            engine, candidate = open_candidate(
                Setting(model, dtype, device),
                attention or "eager",
                table,
                reference.max_new_tokens,
                progress,
            )
            demand = one_op_demand(reference, candidate, tolerance)
            progress("augur", 0, 1)
            findings = trace_network(engine.model, passes, demand.tolerance)
            progress("augur", 1, 1)
        if as_json:
            print(json.dumps(trace_object(candidate, reference, demand, findings)))
        else:
            print_trace_setting(stdout, candidate, reference, demand)
            print_findings(stdout, findings)
    if not all(one.difference.held for one in findings):
        raise SystemExit(EXIT_FAILURE)


@contextmanager
def _clear_errors(debug: bool) -> Iterator[None]:
    """An op on trial that breaks is a difference that was found, not wrong input: 1."""
    with clear_errors(OutputPathError, ProofError, debug=debug):
        try:
            yield
        except OpFailedError as error:
            say_error(error, debug=debug)
            raise SystemExit(EXIT_FAILURE) from error


def _ops_table(spec: str | None, attention: AttentionName | None) -> tuple[str, Ops] | None:
    """The table on trial, with its name."""
    _refuse_both("--ops", spec, "--attention", attention)
    return None if spec is None else (spec, load_ops(spec))


def _refuse_both(name: str, value: object, other_name: str, other_value: object) -> None:
    if value is not None and other_value is not None:
        raise typer.BadParameter(f"{name} brings its own; leave out {other_name}")
