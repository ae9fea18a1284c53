"""Which lengths a sweep takes, and which it refuses before anything is measured."""

from dataclasses import replace

import pytest

from augur_bench import BenchError, sweep_lengths
from augur_bench.work import ModelSize


@pytest.fixture
def with_positions(make_settings):
    def make(positions: int):
        settings = make_settings(prompt_token_ids=[1] * 12, max_new_tokens=4)
        config = replace(settings.size.config, max_position_embeddings=positions)
        return replace(settings, size=ModelSize(config))

    return make


def test_the_lengths_are_those_that_the_model_can_take(with_positions):
    few = with_positions(36)
    assert sweep_lengths("new-tokens", None, few) == [8, 16]
    assert sweep_lengths("prompt", None, few) == [16, 32]


def test_a_sweep_of_which_no_length_fits_is_refused(with_positions):
    with pytest.raises(BenchError, match=r"its lengths are 8, 16, 32, 64, and .* none fits into"):
        sweep_lengths("new-tokens", None, with_positions(16))


@pytest.mark.parametrize(("name", "length"), [("prompt", 0), ("prompt", 33), ("new-tokens", 1)])
def test_a_length_that_is_not_possible_is_refused(name, length, with_positions):
    with pytest.raises(BenchError, match=f"length {length} is not possible"):
        sweep_lengths(name, [8, length], with_positions(36))
