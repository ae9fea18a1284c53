"""Each processor against what can be worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from augur_gen import GenerationError, SamplingParams, process_logits
from augur_gen.logit_processors import (
    apply_frequency_penalty,
    apply_logit_bias,
    apply_min_p,
    apply_presence_penalty,
    apply_repetition_penalty,
    apply_temperature,
    apply_top_k,
    apply_top_p,
    suppress_tokens,
)

INF = math.inf


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def kept(logits: Tensor) -> list[int]:
    """Which tokens of the only row are left."""
    assert logits.shape[0] == 1
    return (logits[0] > -INF).nonzero()[:, 0].tolist()


def log(*probabilities: float) -> Tensor:
    return rows(list(probabilities)).log()


NONE = torch.zeros(1, 0, dtype=torch.int64)
PROCESSORS = {
    "bias": lambda logits: apply_logit_bias(logits, {0: 1.0}),
    "no bias": lambda logits: apply_logit_bias(logits, {}),
    "repetition": lambda logits: apply_repetition_penalty(logits, torch.tensor([[0, 1]]), 2.0),
    "repetition of nothing": lambda logits: apply_repetition_penalty(logits, NONE, 2.0),
    "presence": lambda logits: apply_presence_penalty(logits, torch.tensor([[0]]), 1.0),
    "frequency": lambda logits: apply_frequency_penalty(logits, torch.tensor([[0, 0]]), 1.0),
    "frequency of nothing": lambda logits: apply_frequency_penalty(logits, NONE, 1.0),
    "suppression": lambda logits: suppress_tokens(logits, [0]),
    "temperature": lambda logits: apply_temperature(logits, 0.5),
    "top_k": lambda logits: apply_top_k(logits, 2),
    "top_p": lambda logits: apply_top_p(logits, 0.5),
    "min_p": lambda logits: apply_min_p(logits, 0.5),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_input_is_left_as_it_was_and_minus_infinity_stays(name):
    logits = rows([1.0, -2.0, -INF, 0.5])
    before = logits.clone()
    processed = PROCESSORS[name](logits)
    assert torch.equal(logits, before)
    assert processed.data_ptr() != logits.data_ptr()
    assert processed[0, 2] == -INF
    assert (processed.shape, processed.dtype) == (logits.shape, torch.float32)


def test_a_repetition_penalty_makes_positive_and_negative_logits_less_likely():
    processed = apply_repetition_penalty(rows([-1.0, 2.0]), torch.tensor([[0, 1]]), 2.0)
    assert processed.tolist() == [[-2.0, 1.0]]


def test_a_repetition_penalty_below_one_makes_them_more_likely():
    processed = apply_repetition_penalty(rows([-1.0, 2.0]), torch.tensor([[0, 1]]), 0.5)
    assert processed.tolist() == [[-0.5, 4.0]]


def test_a_repetition_penalty_acts_once_however_often_a_token_is_there():
    processed = apply_repetition_penalty(rows([8.0, 8.0, 8.0]), torch.tensor([[1, 1, 1, 2]]), 2.0)
    assert processed.tolist() == [[8.0, 4.0, 4.0]]


@pytest.mark.parametrize(
    ("apply", "penalised"),
    [
        (apply_repetition_penalty, {1: 4.0, 2: 4.0}),
        (apply_presence_penalty, {1: 6.0, 2: 6.0}),
        (apply_frequency_penalty, {1: 4.0, 2: 6.0}),
    ],
)
def test_padding_does_not_count_and_each_row_has_its_own_tokens(apply, penalised):
    logits = torch.full((3, 4), 8.0)
    token_ids = torch.tensor([[0, 0, 1, 1, 2], [0, 3, 3, 0, 0], [0, 0, 0, 0, 0]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
    processed = apply(logits, token_ids, 2.0, mask)
    assert processed.tolist() == [
        [8.0, penalised[1], penalised[2], 8.0],
        [8.0, 8.0, 8.0, penalised[1]],
        [8.0, 8.0, 8.0, 8.0],
    ]


def test_padding_that_is_also_a_real_token_counts_where_it_is_real():
    mask = torch.tensor([[False, False, True]])
    processed = apply_repetition_penalty(rows([8.0, 8.0]), torch.tensor([[0, 1, 0]]), 2.0, mask)
    assert processed.tolist() == [[4.0, 8.0]]


def test_presence_is_subtracted_once_and_frequency_for_each_time():
    logits = rows([1.0, -1.0, 2.0, 0.0])
    generated = torch.tensor([[1, 2, 1, 1]])
    assert apply_presence_penalty(logits, generated, 0.5).tolist() == [[1.0, -1.5, 1.5, 0.0]]
    assert apply_frequency_penalty(logits, generated, 0.5).tolist() == [[1.0, -2.5, 1.5, 0.0]]
    assert apply_presence_penalty(logits, generated, -0.5).tolist() == [[1.0, -0.5, 2.5, 0.0]]


def test_a_bias_is_added_to_its_token_in_every_row():
    biased = apply_logit_bias(rows([0.0, 1.0, 2.0], [3.0, 4.0, 5.0]), {2: -1.5, 0: 4.0})
    assert biased.tolist() == [[4.0, 1.0, 0.5], [7.0, 4.0, 3.5]]
    assert kept(apply_logit_bias(rows([0.0, 1.0]), {1: -INF})) == [0]


@pytest.mark.parametrize("token_id", [3, -1])
def test_a_bias_for_a_token_that_has_no_logit_is_refused(token_id):
    with pytest.raises(GenerationError, match=f"names token {token_id}.* 0 to 2"):
        apply_logit_bias(rows([0.0, 1.0, 2.0]), {token_id: 1.0})


def test_suppressed_tokens_are_gone_and_ids_outside_the_vocabulary_are_passed_over():
    logits = rows([0.0, 1.0, 2.0])
    assert kept(suppress_tokens(logits, {1, 2, 3, 99})) == [0]
    assert suppress_tokens(logits.bfloat16(), [1]).dtype == torch.bfloat16
    assert torch.equal(suppress_tokens(logits, []), logits)


@pytest.mark.parametrize(
    ("logits", "top_k", "expected"),
    [
        ([1.0, 4.0, 2.0, 3.0], 1, [1]),
        ([1.0, 4.0, 2.0, 3.0], 2, [1, 3]),
        ([1.0, 4.0, 2.0, 3.0], 4, [0, 1, 2, 3]),
        ([1.0, 4.0, 2.0, 3.0], 99, [0, 1, 2, 3]),
        ([4.0, 3.0, 3.0, 3.0, 1.0], 2, [0, 1, 2, 3]),
        ([-INF, 1.0, -INF, -INF], 3, [1]),
        ([-0.0, 0.0, -1.0], 1, [0, 1]),
    ],
)
def test_top_k_keeps_the_k_largest_and_what_equals_the_kth(logits, top_k, expected):
    assert kept(apply_top_k(rows(logits), top_k)) == expected


@pytest.mark.parametrize(
    ("probabilities", "top_p", "expected"),
    [
        ((0.5, 0.41, 0.09), 0.9, [0, 1]),
        ((0.09, 0.41, 0.5), 0.9, [1, 2]),
        ((0.5, 0.41, 0.09), 0.01, [0]),
        ((0.5, 0.41, 0.09), 0.0, [0]),
        ((0.5, 0.41, 0.09), 0.49, [0]),
        ((0.5, 0.41, 0.09), 0.51, [0, 1]),
        ((0.5, 0.41, 0.09), 0.92, [0, 1, 2]),
        ((0.5, 0.41, 0.09), 1.0, [0, 1, 2]),
        ((0.25, 0.25, 0.25, 0.25), 0.6, None),
    ],
)
def test_top_p_keeps_the_fewest_that_exceed_it(probabilities, top_p, expected):
    left = kept(apply_top_p(log(*probabilities), top_p))
    # Which of several equals stay is left open; how many is not.
    assert left == expected if expected is not None else len(left) == 3


def test_top_k_of_one_leaves_one_whatever_top_p_says():
    params = SamplingParams(top_k=1, top_p=0.8)
    assert kept(process_logits(log(0.5, 0.41, 0.09), params, NONE, 0)) == [0]


@pytest.mark.parametrize(
    ("min_p", "expected"),
    [(0.0, [0, 1, 2, 3]), (0.1, [0, 1, 2]), (0.6, [0, 1]), (1.0, [0]), (0.9, [0])],
)
def test_min_p_keeps_what_is_at_least_that_fraction_of_the_likeliest(min_p, expected):
    assert kept(apply_min_p(log(0.5, 0.35, 0.11, 0.04), min_p)) == expected


def test_min_p_of_one_keeps_all_that_equal_the_likeliest():
    assert kept(apply_min_p(rows([2.0, 1.0, 2.0]), 1.0)) == [0, 2]


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
def test_a_single_survivor_survives(name):
    assert kept(PROCESSORS[name](rows([-INF, -INF, -3.0, -INF]))) == [2]


def test_the_smallest_temperature_leaves_finite_logits_and_all_weight_on_the_largest():
    scaled = apply_temperature(rows([30.0, 29.99, -30.0]), 1e-6)
    assert scaled.isfinite().all()
    assert scaled.softmax(-1).tolist() == [[1.0, 0.0, 0.0]]


def test_the_order_is_bias_penalties_temperature_top_k_top_p_min_p():
    logits = rows([4.0, -1.0, 2.0, 1.0, 0.0])
    token_ids = torch.tensor([[0, 1, 2, 2]])
    params = SamplingParams(
        temperature=0.5,
        logit_bias={0: 2.0},
        repetition_penalty=2.0,
        presence_penalty=0.25,
        frequency_penalty=0.5,
        top_k=4,
        min_p=1e-3,
    )
    processed = process_logits(logits, params, token_ids, num_prompt_tokens=2)
    # 0: (4 + 2) / 2 = 3; 1: -1 * 2; 2: 2 / 2 - 0.25 - 2 * 0.5; then all divided by 0.5. The
    # smallest goes by top_k, and e^-6.5 of the largest is still above min_p.
    assert processed.tolist() == [[6.0, -INF, -0.5, 2.0, 0.0]]


def test_a_temperature_of_zero_leaves_bias_and_penalties_alone():
    params = SamplingParams(temperature=0, logit_bias={0: 1.0}, top_k=1, top_p=0.1, min_p=0.9)
    assert process_logits(rows([1.0, 2.0]).bfloat16(), params, NONE, 0).tolist() == [[2.0, 2.0]]
