"""Prove that augur computes what transformers does, and that a kernel computes its op."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import augur_apps.option_types as option
from augur_apps.console import EXIT_FAILURE, Debug, clear_errors, progress_bars, say_error
from augur_apps.output_paths import OutputPathError, check_output_file
from augur_apps.parity_kernel import kernel, workloads

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


Prompts = Annotated[
    Path | None, typer.Option(help="A JSON list of prompts.", show_default="ten prompts")
]
DType = Annotated[option.DTypeName, typer.Option(help="To compute in.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps; bits are promised on cpu.")]
Attention = Annotated[
    option.AttentionName | None, typer.Option(help="augur's.", show_default="eager")
]
OpsSpec = Annotated[
    str | None,
    typer.Option(metavar="MODULE:NAME", help="A table of ops (augur_model.Ops) on trial."),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0.0, callback=_finite, help="Largest difference allowed.", show_default="0 for eager"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

app.command()(kernel)
app.command()(workloads)

# What computes is imported by the command that needs it: `--help` is not to wait for torch.


@app.command()
def record(
    model: option.Model = None,
    prompts: Prompts = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="For each prompt.")] = MAX_NEW_TOKENS,
    dtype: DType = "float32",
    device: Device = "cpu",
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path(
        "ground-truth.safetensors"
    ),
    debug: Debug = False,
) -> None:
    """Write a ground-truth file: transformers' ids, greedy tokens and first logits."""
    with _clear_errors(debug):
        check_output_file("--out", out)
        from augur_apps import parity_sides as sides  # noqa: PLC0415
        from augur_proof import read_prompts, write_ground_truth  # noqa: PLC0415

        setting = sides.setting_of(model, dtype, device, max_new_tokens)
        with progress_bars() as progress:
            truth = sides.referee_truth(setting, read_prompts(prompts), progress)
        write_ground_truth(out, truth)
        num_tokens = sum(len(answer.generated_ids) for answer in truth.answers)
        print(f"reference     {setting.model}: {setting.line}")
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
    prompts: Prompts = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="For each prompt.", show_default="the truth's, or 32")
    ] = None,
    dtype: Annotated[
        option.DTypeName | None,
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
    _refuse_both("--ops", ops, "--attention", attention)
    with _clear_errors(debug):
        import augur_proof as proof  # noqa: PLC0415
        from augur_apps import parity_sides as sides  # noqa: PLC0415
        from augur_apps.parity_reports.check_report import check_object, print_check  # noqa: PLC0415

        table = None if ops is None else proof.load_ops(ops)
        with progress_bars() as progress:
            if truth is not None:
                expected = proof.read_ground_truth(truth).cut(max_new_tokens)
            else:
                setting = sides.setting_of(model, dtype, device, max_new_tokens or MAX_NEW_TOKENS)
                texts = proof.read_prompts(prompts)
                expected = sides.referee_truth(setting, texts, progress)
            reference = expected.made_with
            ours = sides.setting_of(
                model or reference.model,
                dtype or reference.dtype,
                device,
                reference.max_new_tokens,
                ours=ops or attention or "eager",
            )
            llm, candidate = sides.open_candidate(ours, attention, table, progress)
            demand = proof.whole_model_demand(reference, ours, tolerance)
            found = proof.check(
                candidate,
                expected,
                demand,
                encode=llm.encode,
                eos_token_ids=llm.eos_token_ids,
                progress=progress,
            )
            # One pass over all prompts' ids: longer than any of them, as some mistakes are.
            fed = [token_id for answer in expected.answers for token_id in answer.input_ids]
            judged = demand.tolerance.exact or tolerance is not None
            fed = fed[: candidate.model.config.num_positions]
            calls = [] if judged else proof.judge_ops(candidate, fed)
        if as_json:
            print(json.dumps(check_object(ours, reference, truth, demand, found, calls)))
        else:
            print_check(stdout, ours, reference, truth, demand, found, calls, llm.tokenizer)
    if not (all(one.held for one in found) and all(one.held for one in calls)):
        raise SystemExit(EXIT_FAILURE)


@app.command()
def trace(
    model: option.Model = None,
    prompt: Annotated[
        str | None, typer.Option(help="What to feed.", show_default="the two longest of the ten")
    ] = None,
    decode_steps: Annotated[
        int, typer.Option(min=0, help="Cached steps to trace after the prompt.")
    ] = 1,
    dtype: DType = "float32",
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
    _refuse_both("--ops", ops, "--attention", attention)
    with _clear_errors(debug):
        import augur_proof as proof  # noqa: PLC0415
        from augur_apps import parity_sides as sides  # noqa: PLC0415
        from augur_apps.parity_reports.trace_report import print_trace, trace_object  # noqa: PLC0415

        table = None if ops is None else proof.load_ops(ops)
        # Long enough for what is wrong only beyond some row.
        longest = "\n".join(sorted(proof.read_prompts(), key=len)[-2:])
        text = longest if prompt is None else prompt
        num_new = decode_steps + 1  # the last is chosen and never fed
        reference = sides.setting_of(against or model, dtype, device, num_new)
        ours = sides.setting_of(model, dtype, device, num_new, ours=ops or attention or "eager")
        with progress_bars() as progress:
            passes = sides.referee_passes(reference, text, progress)
            _, candidate = sides.open_candidate(ours, attention, table, progress)
            demand = proof.one_op_demand(reference, ours, tolerance)
            progress("augur", 0, 1)
            findings = proof.trace(candidate, passes, demand.tolerance, budget=demand.budget)
            progress("augur", 1, 1)
        if as_json:
            print(json.dumps(trace_object(ours, reference, demand, findings)))
        else:
            print_trace(stdout, ours, reference, demand, findings)
    if not all(one.difference.held for one in findings):
        raise SystemExit(EXIT_FAILURE)


@contextmanager
def _clear_errors(debug: bool) -> Iterator[None]:
    """An op on trial that breaks is a difference that was found, not wrong input: 1."""
    from augur_proof import OpFailedError, ProofError  # noqa: PLC0415

    with clear_errors(OutputPathError, ProofError, debug=debug):
        try:
            yield
        except OpFailedError as error:
            say_error(error, debug=debug)
            raise SystemExit(EXIT_FAILURE) from error


def _refuse_both(name: str, value: object, other_name: str, other_value: object) -> None:
    if value is not None and other_value is not None:
        raise typer.BadParameter(f"{name} brings its own; leave out {other_name}")
