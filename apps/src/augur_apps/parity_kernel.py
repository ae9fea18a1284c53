"""`parity.py kernel`: a verdict on one op alone, over the shapes that Qwen models use."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import augur_apps.option_types as option
from augur_apps.console import EXIT_FAILURE, Debug, clear_errors, progress_bars
from augur_apps.output_paths import OutputPathError, check_output_folder

if TYPE_CHECKING:
    import torch

    from augur_apps.parity_reports.kernel_report import Trial
    from augur_proof.kernels import Kernel, Op, Workload
    from augur_weights import Progress

stdout = Console(highlight=False, emoji=False)

Op_ = Annotated[
    str | None, typer.Option("--op", help="The op it replaces.", show_default="all of a table")
]
DType = Annotated[
    option.DTypeName | None, typer.Option(help="To compute in.", show_default="all three")
]


def kernel(
    spec: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A function, or a table of them.")
    ],
    op: Op_ = None,
    dtype: DType = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    workloads: Annotated[
        Path | None,
        typer.Option(help="A folder that `workloads` wrote.", show_default="the op's own"),
    ] = None,
    smallest: Annotated[
        int | None,
        typer.Option(min=1, help="Only so many for each op and dtype, the smallest first."),
    ] = None,
    time: Annotated[bool, typer.Option(help="Time what held.")] = True,
    report: Annotated[
        Path | None, typer.Option(help="A folder for report.md, kernel.json and a picture.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Judge a kernel on its op alone, over the shapes of Qwen models: no weights are needed."""
    with _clear_errors(debug):
        if report is not None:
            check_output_folder("--report", report)
        from augur.devices import choose_device  # noqa: PLC0415
        from augur_apps.parity_reports import kernel_report as reports  # noqa: PLC0415
        from augur_proof.kernels import OPS, load_kernels, read_workloads  # noqa: PLC0415

        place = choose_device(device)
        found = load_kernels(spec, OPS, op)
        given = None if workloads is None else read_workloads(workloads)
        with progress_bars() as progress:
            trials = [
                _try(one, OPS[name], chosen, place, time, progress)
                for name, one in found.items()
                for chosen in [_chosen(OPS[name], given, dtype, smallest)]
            ]
        # A triton kernel asks for its interpreter so, and says it nowhere else.
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        result = reports.KernelReport(spec, str(place), interpreted, trials)
        if report is not None:
            reports.write_report(report, result)
        if as_json:
            print(json.dumps(result.to_json()))
        else:
            reports.print_kernel(stdout, result)
            if report is not None:
                stdout.print(f"report  {report}", markup=False, soft_wrap=True)
    if not result.held:
        raise SystemExit(EXIT_FAILURE)


def workloads(
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    op: Op_ = None,
    dtype: DType = None,
    debug: Debug = False,
) -> None:
    """Write the ops' workloads in flashinfer-bench's JSON: definitions, and calls of them."""
    with _clear_errors(debug):
        check_output_folder("--out", out)
        from augur_proof import ProofError  # noqa: PLC0415
        from augur_proof.kernels import OPS, export  # noqa: PLC0415

        if op is not None and op not in OPS:
            raise ProofError(f"--op {op}: no such op, expected one of {', '.join(OPS)}")
        ops = OPS.values() if op is None else [OPS[op]]
        files = export(one for each in ops for one in _chosen(each, None, dtype))
        for path, text in files.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, encoding="utf-8")
        print(f"{len(files)} files in {out}")


def _chosen(
    op: "Op",
    given: "list[Workload] | None",
    dtype: option.DTypeName | None,
    smallest: int | None = None,
) -> "list[Workload]":
    """What an op is tried on: what was given, or its own; in one dtype or all, few or all."""
    from augur_proof import DTYPES, ProofError  # noqa: PLC0415

    dtypes = DTYPES.values() if dtype is None else [DTYPES[dtype]]
    if given is None:
        chosen = [one for each in dtypes for one in op.workloads(each)]
    else:
        chosen = [one for one in given if one.op == op.name and one.dtype in dtypes]
    if not chosen:
        raise ProofError(f"--workloads: there is none of {op.name} in {dtype or 'any dtype'}")
    if smallest is None:
        return chosen
    by_size = sorted(chosen, key=lambda one: math.prod(max(1, size) for size in one.axes.values()))
    return [one for each in dtypes for one in [w for w in by_size if w.dtype == each][:smallest]]


def _try(
    kernel: "Kernel",
    op: "Op",
    chosen: "list[Workload]",
    device: "torch.device",
    time: bool,
    progress: "Progress",
) -> "Trial":
    from augur_apps.parity_reports.kernel_report import Trial  # noqa: PLC0415
    from augur_proof.kernels import time_workload, try_workload  # noqa: PLC0415

    lines = []
    for done, workload in enumerate(chosen):
        progress(op.name, done, len(chosen))
        outcome = try_workload(kernel, op, workload, device)
        # What is wrong is not timed: it may be fast for that reason.
        timed = time and outcome.held
        rate = time_workload(kernel, op, workload, device) if timed else None
        lines.append((outcome, rate))
    progress(op.name, len(chosen), len(chosen))
    return Trial(op.name, lines)


@contextmanager
def _clear_errors(debug: bool) -> Iterator[None]:
    from augur_proof import ProofError  # noqa: PLC0415

    with clear_errors(OutputPathError, ProofError, debug=debug):
        yield
