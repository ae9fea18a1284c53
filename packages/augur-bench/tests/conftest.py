"""One thread for all, a tiny checkpoint, and one run of the bench that many tests look at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from worker_here import TRIAL_RUNGS, work_here

from augur_bench import (
    Settings,
    choose_pairs,
    choose_rungs,
    climb,
    questions,
    result_object,
    run_sweeps,
    run_throughput,
    throughput_rungs,
    write_report,
)
from augur_bench.work import ModelSize
from augur_model import QwenConfig
from augur_proof import write_tiny_checkpoint
from augur_weights import Checkpoint


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Waking threads takes longer than what they would do for models this small."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("bench") / "checkpoint")


@pytest.fixture(scope="session")
def make_settings(
    tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Settings]:
    """Settings of a short run, with changes."""
    size = ModelSize(QwenConfig.from_dict(Checkpoint(tiny_folder).config))
    prompts = [[5, 1, 4], [9, 2, 6, 5, 3], [5, 8]]

    def make(**changes: Any) -> Settings:
        values = {
            "prompts": prompts,
            "prompt_token_ids": prompts[1],
            "scratch": tmp_path_factory.mktemp("scratch"),
            "max_new_tokens": 6,
            "check_tokens": 2,
            "rungs_from": TRIAL_RUNGS,
        }
        return Settings(tiny_folder, size, **(values | changes))

    return make


@pytest.fixture
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    work_here(monkeypatch)


@pytest.fixture(scope="session")
def result(make_settings: Callable[..., Settings]) -> dict[str, Any]:
    """Rungs of the ladder and others, those that cannot run, a dtype of its own, sweeps."""
    settings = make_settings()
    rungs = choose_rungs("cached,sdpa,bfloat16,no-bias,lacking,unfitting", TRIAL_RUNGS)
    with pytest.MonkeyPatch.context() as patch:
        work_here(patch)
        climbed = climb(settings, choose_pairs(rungs))
        sweeps = run_sweeps({"prompt": [4, 8], "new-tokens": [4, 8]}, settings)
        asked = [questions(number, settings) for number in (1, 5)]
        throughput = run_throughput(asked, throughput_rungs(rungs, None), settings)
    return result_object("tiny", settings, climbed, sweeps, throughput)


@pytest.fixture(scope="session")
def report_folder(result: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "report"
    write_report(result, folder)
    return folder
