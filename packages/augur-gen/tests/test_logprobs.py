"""Log-probabilities are the model's own, whatever was done to choose the token."""

import math

import pytest
import torch

from augur_gen import Generation, SamplingParams, StopConditions, TokenLogprobs, generate

CPU = torch.device("cpu")
PROBABILITIES = torch.tensor([[0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]])


def run(steps, stop=None, **options):
    """Two tokens, chosen greedily unless told otherwise."""
    params = SamplingParams(**{"temperature": 0} | options)
    generation = Generation(steps, [1], stop or StopConditions(2), device=CPU, sampler=params)
    return generation.run()


def test_each_token_has_its_own_and_the_top_ones_likeliest_first(logit_steps):
    result = run(logit_steps(PROBABILITIES.log()), logprobs=2)
    assert result.token_ids == [0, 3]
    first, second = result.logprobs
    assert (first.token_id, second.token_id) == (0, 3)
    assert first.logprob == pytest.approx(math.log(0.5), abs=1e-6)
    assert [token_id for token_id, _ in first.top] == [0, 1]
    assert [token_id for token_id, _ in second.top] == [3, 2]
    expected = [math.log(0.4), math.log(0.3)]
    assert [logprob for _, logprob in second.top] == pytest.approx(expected, abs=1e-6)


def test_bias_penalties_temperature_cuts_and_suppression_leave_them_alone(logit_steps):
    rows = PROBABILITIES.log()
    result = run(
        logit_steps(rows),
        StopConditions.of(2, [0, 3], min_new_tokens=2),
        temperature=1e-6,
        seed=0,
        logit_bias={1: 50.0, 2: 50.5},
        presence_penalty=100.0,
        top_k=1,
        logprobs=1,
    )
    assert result.token_ids == [1, 2]
    chosen = [logprobs.logprob for logprobs in result.logprobs]
    assert chosen == pytest.approx([math.log(0.25), math.log(0.3)], abs=1e-6)
    assert [logprobs.top[0][0] for logprobs in result.logprobs] == [0, 3]


def test_zero_asks_for_the_chosen_tokens_alone_and_none_for_nothing(logit_steps):
    chosen_alone = run(logit_steps(PROBABILITIES.log()), logprobs=0).logprobs
    assert [(logprobs.token_id, logprobs.top) for logprobs in chosen_alone] == [(0, ()), (3, ())]
    assert run(logit_steps(PROBABILITIES.log())).logprobs is None


def test_more_than_the_vocabulary_means_all_of_it(logit_steps):
    [first, _] = run(logit_steps(PROBABILITIES.log()), logprobs=99).logprobs
    assert sum(math.exp(logprob) for _, logprob in first.top) == pytest.approx(1, abs=1e-6)
    assert len(first.top) == 4


def test_a_model_run_has_the_log_softmax_of_a_whole_forward_pass(model, prompt):
    params = SamplingParams(seed=2, logprobs=3)
    result = generate(model, prompt, StopConditions(6), sampler=params).run()
    whole = model(torch.tensor([prompt + result.token_ids]))[0, len(prompt) - 1 : -1]
    expected = whole.log_softmax(-1)
    for found, token_id, row in zip(result.logprobs, result.token_ids, expected, strict=True):
        assert isinstance(found, TokenLogprobs)
        # One row at a time and all at once are not summed in the same order.
        assert found.logprob == pytest.approx(float(row[token_id]), abs=1e-4)
        assert [token_id for token_id, _ in found.top] == row.topk(3).indices.tolist()


def test_a_partial_result_has_one_for_each_token_there_is(logit_steps):
    params = SamplingParams(temperature=0, logprobs=1)
    generation = Generation(
        logit_steps(PROBABILITIES.log()), [1], StopConditions(2), device=CPU, sampler=params
    )
    next(generation)
    partial = generation.result()
    next(generation)
    assert (len(partial.logprobs), len(generation.result().logprobs)) == (1, 2)
