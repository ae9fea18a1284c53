"""What sampling can be asked for, and what it refuses."""

import copy
import dataclasses
import json
import math
import pickle
from fractions import Fraction

import pytest
import torch

from augur_gen import GenerationError, SamplingParams, process_logits

WRONG = [
    ("temperature", -0.1, "0 for greedy"),
    ("temperature", 1e-7, "from 1e-06 to 1e+06"),
    ("temperature", 1.1e6, "from 1e-06 to 1e+06"),
    ("temperature", math.inf, "from 1e-06 to 1e+06"),
    ("temperature", math.nan, "from 1e-06 to 1e+06"),
    ("temperature", True, "0 for greedy"),
    ("temperature", "1", "0 for greedy"),
    ("temperature", None, "0 for greedy"),
    ("top_k", 0, "from 1 up"),
    ("top_k", -1, "from 1 up"),
    ("top_k", 2.0, "an integer"),
    ("top_k", True, "an integer"),
    ("top_p", -0.01, "from 0 to 1"),
    ("top_p", 1.01, "from 0 to 1"),
    ("top_p", None, "from 0 to 1"),
    ("top_p", math.nan, "from 0 to 1"),
    ("min_p", -0.01, "from 0 to 1"),
    ("min_p", 2, "from 0 to 1"),
    ("repetition_penalty", 0, "from 1e-06 to 1e+06"),
    ("repetition_penalty", -1.0, "from 1e-06 to 1e+06"),
    ("repetition_penalty", 1e-40, "from 1e-06 to 1e+06"),
    ("repetition_penalty", 1e39, "from 1e-06 to 1e+06"),
    ("repetition_penalty", math.inf, "from 1e-06 to 1e+06"),
    ("presence_penalty", 1e39, "from -1e+24 to 1e+24"),
    ("presence_penalty", math.nan, "from -1e+24 to 1e+24"),
    ("frequency_penalty", -1e39, "from -1e+24 to 1e+24"),
    ("frequency_penalty", -math.inf, "from -1e+24 to 1e+24"),
    ("frequency_penalty", "0.5", "from -1e+24 to 1e+24"),
    ("logit_bias", [(1, 2.0)], "a mapping"),
    ("logit_bias", {"5": 1.0}, "token ids, integers"),
    ("logit_bias", {-1: 1.0}, "token ids, integers"),
    ("logit_bias", {True: 1.0}, "token ids, integers"),
    ("logit_bias", {5: 1e39}, "from -1e+24 to 1e+24, or -inf"),
    ("logit_bias", {5: -1e39}, "from -1e+24 to 1e+24, or -inf"),
    ("logit_bias", {5: math.inf}, "from -1e+24 to 1e+24, or -inf"),
    ("logit_bias", {5: math.nan}, "from -1e+24 to 1e+24, or -inf"),
    ("logit_bias", {5: "1"}, "from -1e+24 to 1e+24, or -inf"),
    ("seed", -1, "from 0 to 2"),
    ("seed", 2**32, "from 0 to 2"),
    ("seed", 1.0, "an integer"),
    ("logprobs", -1, "from 0 up"),
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
        {"temperature": 1e6},
        {"top_k": 1},
        {"top_k": 10**9},
        {"top_p": 0},
        {"top_p": 1.0},
        {"min_p": 1},
        {"repetition_penalty": 0.5},
        {"repetition_penalty": 1e-6},
        {"repetition_penalty": 1e6},
        {"presence_penalty": -2.0, "frequency_penalty": 2},
        {"presence_penalty": -1e24, "frequency_penalty": 1e24},
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


CHANGES = {
    "set": lambda bias: bias.__setitem__(2, 1.0),
    "delete": lambda bias: bias.__delitem__(1),
    "update": lambda bias: bias.update({2: 1.0}),
    "or": lambda bias: bias.__ior__({2: 1.0}),
    "setdefault": lambda bias: bias.setdefault(2, 1.0),
    "pop": lambda bias: bias.pop(1),
    "popitem": lambda bias: bias.popitem(),
    "clear": lambda bias: bias.clear(),
}


@pytest.mark.parametrize("copied", [lambda it: it, copy.deepcopy, dataclasses.replace])
@pytest.mark.parametrize("name", CHANGES)
def test_the_bias_cannot_be_changed_nor_that_of_a_copy(name, copied):
    params = copied(SamplingParams(logit_bias={1: 2.0}))
    with pytest.raises(TypeError, match="cannot be changed"):
        CHANGES[name](params.logit_bias)
    assert params.logit_bias == {1: 2.0}


def test_parameters_go_to_another_process_and_come_back():
    params = SamplingParams(logit_bias={1: 2.0}, seed=3, top_k=4)
    again = pickle.loads(pickle.dumps(params))
    assert (again, hash(again), repr(again)) == (params, hash(params), repr(params))
    assert "logit_bias={1: 2.0}" in repr(params)
    with pytest.raises(TypeError, match="cannot be changed"):
        again.logit_bias[2] = 1.0


class Index:
    """An integer of another library."""

    def __init__(self, value):
        self._value = value

    def __index__(self):
        return self._value


def test_numbers_of_other_libraries_are_kept_as_pythons():
    params = SamplingParams(
        temperature=Fraction(1, 2),
        top_k=Index(3),
        seed=torch.tensor(7),
        logprobs=Index(2),
        presence_penalty=Index(1),
        logit_bias={Index(5): Fraction(3, 2)},
    )
    same = SamplingParams(0.5, 3, presence_penalty=1, seed=7, logprobs=2, logit_bias={5: 1.5})
    assert params == same
    assert json.dumps(dataclasses.asdict(params)) == json.dumps(dataclasses.asdict(same))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("penalty", [1e-6, 1e6])
def test_at_the_ends_of_all_ranges_together_a_token_can_be_chosen(sign, penalty):
    change = sign * 1e24
    params = SamplingParams(
        temperature=1e-6,
        repetition_penalty=penalty,
        presence_penalty=change,
        frequency_penalty=change,
        logit_bias={0: -change, 1: -math.inf},
        seed=1,
    )
    token_ids = torch.zeros(1, 10_000, dtype=torch.int64)
    logits = process_logits(torch.tensor([[9.0, 9.0, -9.0, 0.0]]), params, token_ids, 1)
    assert logits[0, [0, 2, 3]].isfinite().all()
    assert logits[0, 1] == -math.inf


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
