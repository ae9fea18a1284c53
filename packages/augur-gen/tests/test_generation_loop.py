"""The loop by itself: scripted logits, no weights."""

import pytest
import torch

from augur_gen import Generation, GenerationError, StopConditions

CPU = torch.device("cpu")
SCRIPT = [11, 12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("eos_token_ids", "expected"),
    [
        ([13], [11, 12, 13]),
        ([15, 12], [11, 12]),
        ([12, 5], [11, 12]),
        ({11, 14}, [11]),
        (range(14, 16), SCRIPT[:4]),
    ],
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


class FailsOnce:
    """Greedy, but for one call that raises."""

    def __init__(self, failing_call: int) -> None:
        self._calls_left = failing_call

    def __call__(self, logits):
        self._calls_left -= 1
        if self._calls_left == 0:
            raise RuntimeError("this once")
        return logits.argmax(-1)


@pytest.mark.parametrize("failing_call", [1, 2, 4])
def test_after_a_sampler_raised_the_token_can_be_asked_for_again_and_nothing_is_fed_twice(
    scripted_steps, failing_call
):
    steps = scripted_steps(SCRIPT)
    sampler = FailsOnce(failing_call)
    generation = Generation(steps, [1, 2], StopConditions(4), device=CPU, sampler=sampler)
    found = [next(generation) for _ in range(failing_call - 1)]
    with pytest.raises(RuntimeError, match="this once"):
        next(generation)
    assert generation.result().token_ids == found
    assert found + list(generation) == SCRIPT[:4]
    assert steps.fed == [[1, 2], [11], [12], [13]]
    timings = generation.result().timings
    assert len(timings.token_s) == 4
    assert timings.ttft_s >= timings.prefill_s


def test_after_a_forward_pass_broke_off_nothing_is_fed_again(scripted_steps):
    def break_off():
        if len(steps.fed) == 1:
            raise KeyboardInterrupt

    steps = scripted_steps(SCRIPT, before_each=break_off)
    generation = Generation(steps, [1, 2], StopConditions(4), device=CPU)
    assert next(generation) == 11
    with pytest.raises(KeyboardInterrupt):
        next(generation)
    with pytest.raises(GenerationError, match=r"forward pass .* broke off"):
        next(generation)
    assert steps.fed == [[1, 2]]
    assert generation.result().token_ids == [11]


@pytest.mark.parametrize("wrong", [1.0, "1", None, True, [1]], ids=repr)
def test_a_prompt_of_other_things_than_integers_is_refused(scripted_steps, wrong):
    with pytest.raises(GenerationError, match=r"token 1 of the prompt is .*, expected an integer"):
        Generation(scripted_steps(SCRIPT), [1, wrong], StopConditions(4), device=CPU)


def test_integers_of_any_library_are_token_ids(scripted_steps):
    steps = scripted_steps(SCRIPT)
    Generation(steps, torch.tensor([1, 2]), StopConditions(1), device=CPU).run()
    assert steps.fed == [[1, 2]]
