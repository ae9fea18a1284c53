"""What is run on a GPU: every part is a command that its program takes."""

from pathlib import Path

import pytest
import typer

from augur_apps import bench, gpu_check, parity
from augur_bench import choose_rungs
from augur_proof.kernels import OPS
from program_run import run_in_process

APPS = {"parity.py": parity.app, "bench.py": bench.app}


@pytest.fixture
def asked(monkeypatch):
    """The commands, and the status that each ends with; nothing is run."""
    commands: list[list[str]] = []
    statuses: dict[str, int] = {}

    def run(command, _dry_run):
        commands.append(command)
        return statuses.get(command[0], 0)

    monkeypatch.setattr(gpu_check, "_run", run)
    return commands, statuses


@pytest.mark.parametrize("dry_run", [False, True])
def test_every_part_is_a_command_that_its_program_takes(dry_run):
    parts = list(gpu_check._parts(None, "cuda", dry_run, Path("out")))
    assert len({name for name, _ in parts}) == len(parts) == 6
    for _, (program, *arguments) in parts:
        command = typer.main.get_command(APPS[program])
        if program == "parity.py":
            command = command.commands[arguments.pop(0)]
        command.make_context(program, arguments)


def test_the_rungs_are_there():
    names = [rung.name for rung in choose_rungs(None, gpu_check.RUNGS)]
    assert {"cuda-graph", "triton", "triton-graph"} <= set(names)


def test_all_kernels_have_an_op_in_the_kit():
    kernels = pytest.importorskip("augur_kernels.triton_ops").TRITON_KERNELS
    assert set(kernels) <= set(OPS)


def test_all_parts_are_run_and_one_that_fails_is_told_at_the_end(asked, tmp_path):
    commands, statuses = asked
    done = run_in_process("gpu_check.py", "--report", tmp_path / "out")
    assert (done.returncode, len(commands)) == (0, 6)
    assert done.stdout.endswith(f"all held; reports in {tmp_path / 'out'}\n")
    statuses["bench.py"] = 1
    done = run_in_process("gpu_check.py", "--report", tmp_path / "out")
    assert (done.returncode, len(commands)) == (1, 12)
    assert "FAILED, status 1" in done.stdout
    assert "failed: bench in float32, bench in bfloat16" in done.stderr


@pytest.mark.parametrize("option", [("--model", "some/model"), ("--device", "cuda")])
def test_a_dry_run_refuses_what_it_would_ignore(asked, option, tmp_path):
    done = run_in_process("gpu_check.py", "--dry-run", *option, "--report", tmp_path / "out")
    assert (done.returncode, asked[0]) == (2, [])
    assert "--dry-run has a model and a device of its own" in done.stderr


def test_a_report_that_cannot_be_written_is_refused_before_the_work(asked, tmp_path):
    (tmp_path / "file").touch()
    done = run_in_process("gpu_check.py", "--report", tmp_path / "file")
    assert (done.returncode, asked[0]) == (2, [])
