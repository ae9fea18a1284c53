"""Do on a GPU, in one go, what cannot be tried without one.

Every Triton kernel on trial, with its speed; whole models computed with all of them; the bench's
ladder with recorded decode steps. Each part is one of the programs, run as a user would.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import augur_apps.option_types as option
from augur_apps.console import EXIT_FAILURE, Debug, clear_errors, stderr
from augur_apps.output_paths import OutputPathError, check_output_folder

TRITON = "augur_kernels:TRITON"
RUNGS = Path(__file__).with_name("gpu_rungs.py")

app = typer.Typer(add_completion=False)


@app.command()
def main(
    model: option.Model = None,
    device: Annotated[str | None, typer.Option(help="cuda or cuda:1.", show_default="cuda")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            help="Everything small, on the CPU, by Triton's interpreter: to see that it runs."
        ),
    ] = False,
    report: Annotated[Path, typer.Option(help="A folder for all reports.")] = Path("gpu-check"),
    debug: Debug = False,
) -> None:
    """Try the Triton kernels and the bench on a GPU, in about five minutes."""
    if dry_run and (model, device) != (None, None):
        raise typer.BadParameter("--dry-run has a model and a device of its own; leave them out")
    with clear_errors(OutputPathError, debug=debug), tempfile.TemporaryDirectory() as scratch:
        check_output_folder("--report", report)
        if dry_run:
            from augur_proof import write_tiny_checkpoint  # noqa: PLC0415

            device, model = "cpu", str(write_tiny_checkpoint(Path(scratch) / "tiny"))
        failed = []
        for name, command in _parts(model, device or "cuda", dry_run, report):
            print(f"== {name}", flush=True)
            began_s = time.perf_counter()
            status = _run(command, dry_run)
            told = "held" if status == 0 else f"FAILED, status {status}"
            print(f"== {name}: {told}, {time.perf_counter() - began_s:.0f} s\n", flush=True)
            failed += [name] * (status != 0)
    if failed:
        stderr.print(f"failed: {', '.join(failed)}", style="red", markup=False)
        raise SystemExit(EXIT_FAILURE)
    print(f"all held; reports in {report}")


def _parts(
    model: str | None, device: str, dry_run: bool, report: Path
) -> Iterator[tuple[str, list[str]]]:
    """What is run: a name, and the program with its arguments."""
    where = ["--device", device]
    of_model = where if model is None else [*where, "--model", model]
    kernels = ["parity.py", "kernel", "augur_kernels:TRITON_KERNELS", *where]
    small = ["--smallest", "1", "--no-time"] if dry_run else []
    yield "kernels", [*kernels, *small, "--report", str(report / "kernels")]
    few = ["--max-new-tokens", "2"] if dry_run else []
    for dtype in ("float32", "bfloat16", "float16"):
        check = ["parity.py", "check", *of_model, "--ops", TRITON, "--dtype", dtype, *few]
        yield f"model in {dtype}", check
    rungs = "cached,triton" if dry_run else "cached,sdpa,cuda-graph,triton,triton-graph"
    bench = ["bench.py", *of_model, "--rungs", rungs, "--rungs-from", str(RUNGS)]
    lengths = [*few, "--rounds", "1"] if dry_run else ["--max-new-tokens", "128"]
    for dtype in ("float32", "bfloat16"):
        folder = str(report / f"bench-{dtype}")
        many = ["--sequences", "2" if dry_run else "1,8,32"]
        yield (
            f"bench in {dtype}",
            [*bench, *lengths, *many, "--dtype", dtype, "--report", folder],
        )


def _run(command: list[str], dry_run: bool) -> int:
    """The program's exit status."""
    program, *arguments = command
    start = f"from augur_apps.main import start; start({program.removesuffix('.py')!r})"
    interpreted = {"TRITON_INTERPRET": "1"} if dry_run else {}
    done = subprocess.run(
        [sys.executable, "-c", start, *arguments], env=os.environ | interpreted, check=False
    )
    return done.returncode
