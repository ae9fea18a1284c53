"""What sampling can be asked for, and what it refuses."""

import dataclasses
import json
import math

import pytest
import torch

from augur_gen import GenerationError, SamplingParams

WRONG = [
    ("temperature", -0.1, "0 for greedy"),
    ("temperature", 1e-7, "from 1e-06 up"),
    ("temperature", math.inf, "finite"),
    ("temperature", math.nan, "finite"),
    ("temperature", True, "0 for greedy"),
    ("temperature", "1", "0 for greedy"),
    ("temperature", None, "0 for greedy"),
    ("top_k", 0, "from 1 up, or None"),
    ("top_k", -1, "from 1 up, or None"),
    ("top_k", 2.0, "an integer"),
    ("top_k", True, "an integer"),
    ("top_p", -0.01, "from 0 to 1"),
    ("top_p", 1.01, "from 0 to 1"),
    ("top_p", None, "from 0 to 1"),
    ("top_p", math.nan, "from 0 to 1"),
    ("min_p", -0.01, "from 0 to 1"),
    ("min_p", 2, "from 0 to 1"),
    ("repetition_penalty", 0, "above 0"),
    ("repetition_penalty", -1.0, "above 0"),
    ("repetition_penalty", math.inf, "finite"),
    ("presence_penalty", math.nan, "a finite number"),
    ("frequency_penalty", -math.inf, "a finite number"),
    ("frequency_penalty", "0.5", "a finite number"),
    ("logit_bias", [(1, 2.0)], "a mapping"),
    ("logit_bias", {"5": 1.0}, "token ids, integers"),
    ("logit_bias", {-1: 1.0}, "token ids, integers"),
    ("logit_bias", {True: 1.0}, "token ids, integers"),
    ("logit_bias", {5: math.inf}, "a finite number, or -inf"),
    ("logit_bias", {5: math.nan}, "a finite number, or -inf"),
    ("logit_bias", {5: "1"}, "a finite number, or -inf"),
    ("seed", -1, "from 0 to 2"),
    ("seed", 2**32, "from 0 to 2"),
    ("seed", 1.0, "an integer"),
    ("logprobs", -1, "from 0 up, or None"),
    ("logprobs", True, "an integer"),
]


@pytest.mark.parametrize(("name", "value", "expected"), WRONG)
def test_a_wrong_value_is_refused_by_name_with_what_was_found_and_expected(name, value, expected):
    with pytest.raises(GenerationError) as refused:
        SamplingParams(**{name: value})
    message = str(refused.value)
    assert message.startswith(name)
    found = repr(value) if not isinstance(value, dict) else repr(next(iter(value)))
    assert found in message
    assert expected in message


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0},
        {"temperature": 1e-6},
        {"temperature": 2},
        {"top_k": 1},
        {"top_k": 10**9},
        {"top_p": 0},
        {"top_p": 1.0},
        {"min_p": 1},
        {"repetition_penalty": 0.5},
        {"presence_penalty": -2.0, "frequency_penalty": 2},
        {"logit_bias": {0: -100, 5: 1.5, 7: -math.inf}},
        {"seed": 0},
        {"seed": 2**32 - 1},
        {"logprobs": 0},
    ],
    ids=str,
)
def test_values_at_the_ends_of_their_ranges_are_taken_as_they_are(values):
    params = SamplingParams(**values)
    assert {name: getattr(params, name) for name in values} == values


def test_the_defaults_change_nothing_about_the_models_own_distribution():
    params = SamplingParams()
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (1.0, None, 1.0, 0.0)
    assert (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) == (
        1,
        0,
        0,
    )
    assert params.logit_bias == {}


def test_parameters_cannot_be_changed_from_outside():
    bias = {1: 2.0}
    params = SamplingParams(logit_bias=bias)
    bias[2] = 3.0
    assert params.logit_bias == {1: 2.0}
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.temperature = 2.0


def test_parameters_can_be_written_down_compared_and_hashed():
    params = SamplingParams(logit_bias={1: 2.0}, seed=3)
    assert json.loads(json.dumps(dataclasses.asdict(params)))["logit_bias"] == {"1": 2.0}
    assert params == SamplingParams(logit_bias={1: 2.0}, seed=3) != SamplingParams(seed=3)
    assert hash(params) == hash(SamplingParams(logit_bias={1: 2.0}, seed=3))


def test_a_fresh_seed_is_another_each_time_and_a_given_one_stays():
    seeds = [SamplingParams().with_seed().seed for _ in range(8)]
    assert len(set(seeds)) > 1
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert SamplingParams(seed=5).with_seed().seed == 5


def test_where_nothing_is_drawn_no_seed_is_made_up():
    assert SamplingParams(temperature=0).with_seed().seed is None


def test_seeds_of_more_bits_would_repeat_others():
    """Why they are refused: if this fails, PyTorch has learnt to look at all of them."""
    small, large = (torch.Generator().manual_seed(seed) for seed in (7, 7 + 2**32))
    assert torch.equal(torch.rand(8, generator=small), torch.rand(8, generator=large))


def test_a_bias_for_a_token_outside_the_vocabulary_is_refused():
    params = SamplingParams(logit_bias={60: 1.0, 61: 1.0})
    params.check_vocabulary(62)
    with pytest.raises(GenerationError, match=r"logit_bias names token 61.* 0 to 60"):
        params.check_vocabulary(61)
