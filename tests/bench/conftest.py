import json
from pathlib import Path
from typing import Any

import pytest

import augur_bench.settings
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from bench_here import TRIAL_RUNGS, WorkerHere, run_here


@pytest.fixture
def run_bench(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(augur_bench.settings, "WorkerProcess", WorkerHere)
    return run_here


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("bench") / "checkpoint")


@pytest.fixture(scope="session")
def report_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "report"


@pytest.fixture(scope="session")
def result(tiny_folder: Path, report_folder: Path) -> dict[str, Any]:
    """One run of all there is: rungs of the ladder and others, a peer, sweeps, a report."""
    arguments = [
        *("--model", tiny_folder, "--max-new-tokens", "6", "--repeats", "2", "--device", "cpu"),
        *("--rungs", "cached,bfloat16,sleepy,lacking,unfitting", "--rungs-from", TRIAL_RUNGS),
        *("--check-tokens", "2", "--against", "transformers"),
        *("--sweep", "prompt", "--sweep", "new-tokens", "--sweep-at", "4,8"),
        *("--json", "-", "--report", report_folder),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(augur_bench.settings, "WorkerProcess", WorkerHere)
        done = run_here(*arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found
