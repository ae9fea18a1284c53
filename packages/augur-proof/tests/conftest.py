"""One thread for all, and the checkpoint that most tests open."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from augur_proof import Candidate, GreedyRun, Referee, write_tiny_checkpoint

# Kernels that more than one file puts on trial lie there; tests are imported by their path.
sys.path.insert(0, str(Path(__file__).parent / "kernels"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Waking threads takes longer than what they would do for models this small.

    Set before any fixture of the test is made, whatever its scope: what a fixture records has to
    be summed in the same order as what the test compares with it.
    """
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2 of nine layers with a tokenizer; read, never changed."""
    folder = tmp_path_factory.mktemp("tiny") / "checkpoint"
    return write_tiny_checkpoint(folder, num_hidden_layers=9)


@pytest.fixture
def make_candidate(tmp_path: Path) -> Callable[..., Candidate]:
    """A candidate of a tiny checkpoint with changes."""

    def make(**changes: Any) -> Candidate:
        return Candidate.load(
            write_tiny_checkpoint(tmp_path / "made", **changes), dtype=torch.float32
        )

    return make


@pytest.fixture(scope="session")
def generate() -> Callable[..., GreedyRun]:
    """transformers' own `generate`: its loop and its stopping, in place of the referee's.

    A penalty that the checkpoint names is left out, unless `repetition_penalty` is None.
    """

    def run(
        referee: Referee, input_ids: Sequence[int], max_new_tokens: int, **options: Any
    ) -> GreedyRun:
        given = torch.tensor([list(input_ids)])
        options = {"repetition_penalty": 1.0} | options
        output = referee.model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **{name: value for name, value in options.items() if value is not None},
        )
        return GreedyRun(output.sequences[0, len(input_ids) :].tolist(), torch.cat(output.logits))

    return run
