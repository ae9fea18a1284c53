"""What ends a generation, and what it then says."""

import sys
import threading

import pytest
import torch

from augur_gen import Generation, GenerationError, SamplingParams, StopConditions, Stopwatch

CPU = torch.device("cpu")
SCRIPT = [11, 12, 13, 14, 15, 16]


def start(steps, stop, **options):
    return Generation(steps, [1, 2], stop, device=CPU, **options)


def test_a_stop_token_ends_the_text_as_an_eos_does_but_for_its_own_reason(scripted_steps):
    result = start(scripted_steps(SCRIPT), StopConditions.of(6, [15], [13, 99])).run()
    assert (result.token_ids, result.finish_reason) == ([11, 12, 13], "stop")


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (StopConditions.of(3, [13], [13], max_time_s=6), "eos"),
        (StopConditions.of(3, [], [13], max_time_s=6), "stop"),
        (StopConditions.of(3, max_time_s=6), "length"),
        (StopConditions.of(4, max_time_s=6), "time"),
    ],
)
def test_of_several_reasons_the_token_comes_before_the_count_and_the_count_before_the_time(
    scripted_steps, clock, stop, reason
):
    steps = scripted_steps(SCRIPT, before_each=lambda: clock.move(2.0))
    result = start(steps, stop, stopwatch=Stopwatch(CPU, clock)).run()
    assert (result.token_ids, result.finish_reason) == ([11, 12, 13], reason)


@pytest.mark.parametrize("sampler", [None, SamplingParams(temperature=0), SamplingParams(seed=1)])
def test_no_token_that_ends_the_text_is_chosen_before_the_minimum(logit_steps, sampler):
    """Token 0, an EOS, is by far the likeliest each time, and 1, a stop token, comes next."""
    rows = torch.tensor([[200.0, 100.0, 0.0]]).expand(6, -1)
    options = {} if sampler is None else {"sampler": sampler}
    stop = StopConditions.of(6, [0], [1], min_new_tokens=3)
    result = start(logit_steps(rows), stop, **options).run()
    assert (result.token_ids, result.finish_reason) == ([2, 2, 2, 0], "eos")
    stop = StopConditions.of(6, stop_token_ids=[0], min_new_tokens=6)
    assert start(logit_steps(rows), stop, **options).run().token_ids == [1] * 6


def test_from_the_minimum_on_the_logits_are_passed_on_untouched():
    logits = torch.randn(1, 8)
    before = logits.clone()
    stop = StopConditions.of(6, [0], min_new_tokens=2)
    assert stop.suppress(logits, 2) is logits
    suppressed = stop.suppress(logits, 1)
    assert (suppressed == -torch.inf).tolist() == [[True] + [False] * 7]
    assert torch.equal(logits, before)


def test_a_minimum_without_tokens_to_suppress_changes_nothing(scripted_steps):
    stop = StopConditions.of(4, min_new_tokens=4)
    assert start(scripted_steps(SCRIPT), stop).run().token_ids == SCRIPT[:4]


@pytest.mark.parametrize(
    ("seconds_each", "max_time_s", "expected"),
    [(2.0, 5.0, 3), (2.0, 6.0, 3), (2.0, 6.1, 4), (100.0, 1.0, 1)],
)
def test_the_time_is_looked_at_after_each_token(
    scripted_steps, clock, seconds_each, max_time_s, expected
):
    steps = scripted_steps(SCRIPT, before_each=lambda: clock.move(seconds_each))
    stop = StopConditions.of(6, max_time_s=max_time_s)
    result = start(steps, stop, stopwatch=Stopwatch(CPU, clock)).run()
    assert (result.token_ids, result.finish_reason) == (SCRIPT[:expected], "time")


def test_the_callers_own_time_counts_and_no_token_is_begun_too_late(scripted_steps, clock):
    steps = scripted_steps(SCRIPT)
    stop = StopConditions.of(6, max_time_s=10.0)
    generation = start(steps, stop, stopwatch=Stopwatch(CPU, clock))
    clock.move(50.0)  # before the first token is asked for, it does not
    assert next(generation) == 11
    clock.move(9.0)
    assert next(generation) == 12
    clock.move(1.0)
    assert list(generation) == []
    assert (generation.result().token_ids, generation.result().finish_reason) == ([11, 12], "time")
    assert len(steps.fed) == 2


def test_a_cancelled_generation_begins_no_other_token(scripted_steps):
    steps = scripted_steps(SCRIPT)
    generation = start(steps, StopConditions(6))
    assert next(generation) == 11
    generation.cancel()
    assert list(generation) == []
    assert generation.result().finish_reason == "cancelled"
    assert len(steps.fed) == 1


def test_one_cancelled_before_its_start_does_nothing_at_all(scripted_steps):
    steps = scripted_steps(SCRIPT)
    generation = start(steps, StopConditions(6))
    generation.cancel()
    result = generation.run()
    assert (result.token_ids, result.finish_reason, steps.fed) == ([], "cancelled", [])


def test_another_thread_can_cancel_while_a_token_is_computed(scripted_steps):
    """The token under way is completed, and nothing after it."""
    computing, cancelled = threading.Event(), threading.Event()

    def second_token_waits():
        if steps.fed:
            computing.set()
            assert cancelled.wait(timeout=30)

    def cancel_then():
        assert computing.wait(timeout=30)
        generation.cancel()
        cancelled.set()

    steps = scripted_steps(SCRIPT, before_each=second_token_waits)
    generation = start(steps, StopConditions(6))
    other = threading.Thread(target=cancel_then)
    other.start()
    result = generation.run()
    other.join()
    assert (result.token_ids, result.finish_reason) == ([11, 12], "cancelled")


def test_the_first_reason_stays(scripted_steps):
    generation = start(scripted_steps(SCRIPT), StopConditions.of(6, [12]))
    assert list(generation) == [11, 12]
    generation.cancel()
    assert generation.result().finish_reason == "eos"


def test_cancelling_from_within_a_step_completes_the_token(scripted_steps):
    def interrupted():
        generation.cancel()

    steps = scripted_steps(SCRIPT, before_each=interrupted)
    generation = start(steps, StopConditions.of(6, [11]))
    result = generation.run()
    assert (result.token_ids, result.finish_reason) == ([11], "cancelled")


def test_a_signal_handler_may_cancel_while_its_own_thread_ends_the_generation(scripted_steps):
    """A tracer stands in for the signal: it comes in at every line of `finish`."""
    generation = start(scripted_steps(SCRIPT), StopConditions(2))
    lines = []

    def interrupt(frame, event, _):
        if event == "line":
            lines.append(frame.f_lineno)
            generation.cancel()
        return interrupt if frame.f_code.co_name == "finish" else None

    def run_interrupted():
        sys.settrace(interrupt)
        generation.run()

    thread = threading.Thread(target=run_interrupted, daemon=True)
    thread.start()
    thread.join(timeout=30)
    assert not thread.is_alive(), "it waits for itself"
    assert lines
    assert generation.result().finish_reason in ("length", "cancelled")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_new_tokens": -1}, "min_new_tokens is -1, expected 0 to .* 4"),
        ({"min_new_tokens": 5}, "min_new_tokens is 5, expected 0 to .* 4"),
        ({"max_time_s": 0}, "max_time_s is 0, expected seconds above 0"),
        ({"max_time_s": -1.0}, r"max_time_s is -1\.0, expected"),
        ({"max_time_s": float("nan")}, "max_time_s is nan, expected"),
    ],
)
def test_limits_outside_their_range_are_refused(options, message):
    with pytest.raises(GenerationError, match=message):
        StopConditions(4, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": True}, r"max_new_tokens is True \(bool\), expected an integer"),
        ({"max_new_tokens": 2.5}, r"max_new_tokens is 2\.5 \(float\), expected an integer"),
        ({"max_new_tokens": None}, r"max_new_tokens is None"),
        ({"min_new_tokens": "1"}, r"min_new_tokens is '1' \(str\), expected an integer"),
        ({"eos_token_ids": {None}}, r"of eos_token_ids is None \(NoneType\), expected an integer"),
        ({"eos_token_ids": {2.5}}, r"of eos_token_ids is 2\.5"),
        ({"eos_token_ids": 7}, r"eos_token_ids is 7 \(int\), expected a collection of token ids"),
        ({"stop_token_ids": [1, True]}, r"token 1 of stop_token_ids is True \(bool\)"),
        ({"stop_token_ids": "12"}, r"of stop_token_ids is '1'"),
        ({"max_time_s": True}, "max_time_s is True, expected seconds"),
        ({"max_time_s": "1"}, "max_time_s is '1', expected seconds"),
    ],
)
@pytest.mark.parametrize("make", [StopConditions, StopConditions.of])
def test_values_of_other_types_are_refused_at_once(make, options, message):
    with pytest.raises(GenerationError, match=message):
        make(**{"max_new_tokens": 4} | options)


@pytest.mark.parametrize("make", [StopConditions, StopConditions.of])
def test_ids_and_numbers_of_any_library_are_kept_as_pythons(make, logit_steps):
    ids = (0, torch.tensor(1))
    of_torch = {"max_new_tokens": torch.tensor(6), "min_new_tokens": torch.tensor(3)}
    stop = make(**of_torch, eos_token_ids=list(ids), stop_token_ids=iter(ids), max_time_s=5)
    assert stop == StopConditions(6, frozenset({0, 1}), frozenset({0, 1}), 3, 5.0)
    assert hash(stop) == hash(StopConditions(6, frozenset({0, 1}), frozenset({0, 1}), 3, 5.0))
    assert {type(token_id) for token_id in stop.eos_token_ids | stop.stop_token_ids} == {int}
    rows = torch.tensor([[200.0, 100.0, 0.0]]).expand(6, -1)
    assert start(logit_steps(rows), stop).run().token_ids == [2, 2, 2, 0]
