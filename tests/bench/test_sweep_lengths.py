"""Which lengths a sweep takes, and which it refuses before anything is measured."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from augur_bench.errors import BenchError
from augur_bench.sweep import SweepName, sweep_lengths
from augur_bench.work import ModelSize
from augur_bench.workload import Workload
from augur_model import QwenConfig
from augur_weights import Checkpoint


@pytest.fixture
def size(tiny_folder):
    return ModelSize(QwenConfig.from_dict(Checkpoint(tiny_folder).config))


def settings(num_prompt_tokens: int) -> Any:
    return SimpleNamespace(device="cpu", workload=Workload([1] * num_prompt_tokens, [[1]]))


def with_positions(size: ModelSize, positions: int) -> ModelSize:
    return ModelSize(replace(size.config, max_position_embeddings=positions))


def test_the_lengths_are_those_that_the_model_can_take(size):
    few = with_positions(size, 36)
    assert sweep_lengths(SweepName.NEW_TOKENS, None, settings(12), few) == [8, 16]
    assert sweep_lengths(SweepName.PROMPT, None, settings(12), few) == [16, 32]


def test_a_sweep_of_which_no_length_fits_is_refused(size):
    few = with_positions(size, 16)
    with pytest.raises(BenchError, match=r"its lengths are 8, 16, 32, 64, and .* none fits into"):
        sweep_lengths(SweepName.NEW_TOKENS, None, settings(12), few)
