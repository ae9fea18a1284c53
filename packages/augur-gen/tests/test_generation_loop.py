"""The loop by itself: scripted logits, no weights."""

import pytest
import torch

from augur_gen import Generation, GenerationError, StopConditions

CPU = torch.device("cpu")
SCRIPT = [11, 12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("eos_token_ids", "expected"),
    [([13], [11, 12, 13]), ([15, 12], [11, 12]), ({11, 14}, [11]), (range(14, 16), SCRIPT[:4])],
)
def test_any_of_the_eos_ids_ends_the_text_and_is_its_last_token(
    scripted_steps, eos_token_ids, expected
):
    stop = StopConditions.of(6, eos_token_ids)
    result = Generation(scripted_steps(SCRIPT), [1, 2], stop, device=CPU).run()
    assert result.token_ids == expected
    assert result.finish_reason == "eos"


@pytest.mark.parametrize("max_new_tokens", [1, 2, 6])
def test_without_an_eos_it_ends_at_max_new_tokens(scripted_steps, max_new_tokens):
    stop = StopConditions.of(max_new_tokens, [99])
    result = Generation(scripted_steps(SCRIPT), [1], stop, device=CPU).run()
    assert result.token_ids == SCRIPT[:max_new_tokens]
    assert result.finish_reason == "length"


def test_an_eos_that_is_the_last_allowed_token_counts_as_eos(scripted_steps):
    stop = StopConditions.of(3, [13])
    result = Generation(scripted_steps(SCRIPT), [1], stop, device=CPU).run()
    assert (result.token_ids, result.finish_reason) == ([11, 12, 13], "eos")


def test_an_eos_in_the_prompt_stops_nothing(scripted_steps):
    stop = StopConditions.of(2, [13])
    assert Generation(scripted_steps(SCRIPT), [13], stop, device=CPU).run().token_ids == [11, 12]


def test_the_prompt_is_fed_once_and_then_each_chosen_token(scripted_steps):
    steps = scripted_steps(SCRIPT)
    Generation(steps, [1, 2, 3], StopConditions(4), device=CPU).run()
    assert steps.fed == [[1, 2, 3], [11], [12], [13]]


def test_nothing_is_computed_before_a_token_is_asked_for(scripted_steps):
    steps = scripted_steps(SCRIPT)
    generation = Generation(steps, [1, 2], StopConditions(4), device=CPU)
    assert steps.fed == []
    assert next(generation) == 11
    assert len(steps.fed) == 1


def test_a_generation_left_midway_has_its_tokens_and_no_reason(scripted_steps):
    generation = Generation(scripted_steps(SCRIPT), [1], StopConditions(4), device=CPU)
    assert generation.result().token_ids == []
    assert [next(generation), next(generation)] == [11, 12]
    partial = generation.result()
    assert (partial.token_ids, partial.finish_reason) == ([11, 12], None)
    assert len(partial.timings.token_s) == 2

    assert list(generation) == [13, 14]
    assert generation.result().token_ids == [11, 12, 13, 14]
    assert generation.result().finish_reason == "length"
    assert partial.token_ids == [11, 12]


def test_a_finished_generation_stays_finished(scripted_steps):
    steps = scripted_steps(SCRIPT)
    generation = Generation(steps, [1], StopConditions.of(4, [11]), device=CPU)
    assert list(generation) == [11]
    assert list(generation) == []
    assert len(steps.fed) == 1


def test_the_sampler_that_is_given_chooses(scripted_steps):
    seen = []

    def second_best(logits):
        seen.append(tuple(logits.shape))
        return logits.topk(2).indices[:, 1]

    generation = Generation(
        scripted_steps(SCRIPT), [1], StopConditions(2), device=CPU, sampler=second_best
    )
    assert set(generation).isdisjoint(SCRIPT)
    assert seen == [(1, 100), (1, 100)]


@pytest.mark.parametrize("prompt", [[], (), range(0)], ids=repr)
def test_a_prompt_without_tokens_is_refused(scripted_steps, prompt):
    with pytest.raises(GenerationError, match="prompt has no tokens"):
        Generation(scripted_steps(SCRIPT), prompt, StopConditions(4), device=CPU)


@pytest.mark.parametrize("max_new_tokens", [0, -1])
def test_at_least_one_token_is_asked_for(max_new_tokens):
    with pytest.raises(GenerationError, match=f"max_new_tokens is {max_new_tokens}"):
        StopConditions(max_new_tokens)
