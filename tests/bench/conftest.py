import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from worker_here import TRIAL_RUNGS, work_here

from augur_proof import write_tiny_checkpoint
from program_run import run_in_process


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("bench") / "checkpoint")


@pytest.fixture
def run_bench(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CompletedProcess[str]]:
    """The program, its workers in this process, too, on a tiny checkpoint."""
    work_here(monkeypatch)
    return lambda *arguments: run_in_process(
        "bench.py", "--model", tiny_folder, "--device", "cpu", *arguments
    )


@pytest.fixture(scope="session")
def result(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of all there is: rungs of the ladder and others, a peer, sweeps."""
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    with pytest.MonkeyPatch.context() as patch:
        work_here(patch)
        done = run_in_process(
            *("bench.py", "--model", tiny_folder, "--max-new-tokens", "6", "--device", "cpu"),
            *("--rungs", "cached,bfloat16,no-bias,lacking", "--rungs-from", TRIAL_RUNGS),
            *("--check-tokens", "2", "--against", "transformers"),
            *("--sweep", "prompt", "--sweep", "new-tokens", "--sweep-at", "4,8"),
            *("--sequences", "3"),
            *("--json", path),
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
