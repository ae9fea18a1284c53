"""What is measured, by a clock that moves only where the test says so."""

import pytest
import torch

from augur_gen import Generation, StopConditions, Stopwatch, Timings

CPU = torch.device("cpu")


def test_time_that_the_caller_takes_between_two_tokens_does_not_count(scripted_steps, clock):
    steps = scripted_steps([11, 12, 13], before_each=lambda: clock.move(2.0))
    generation = Generation(
        steps, [1, 2, 3], StopConditions(3), device=CPU, stopwatch=Stopwatch(CPU, clock)
    )
    clock.move(100.0)
    for _ in generation:
        clock.move(1000.0)
    timings = generation.result().timings
    assert timings.prefill_s == 2.0
    assert timings.token_s == (2.0, 2.0, 2.0)
    assert timings.decode_s == 4.0


def test_the_first_token_holds_the_prefill_and_its_own_choice(scripted_steps, clock):
    def slow_greedy(logits):
        clock.move(0.5)
        return logits.argmax(-1)

    steps = scripted_steps([11, 12], before_each=lambda: clock.move(2.0))
    generation = Generation(
        steps,
        [1, 2, 3],
        StopConditions(2),
        device=CPU,
        sampler=slow_greedy,
        stopwatch=Stopwatch(CPU, clock),
    )
    timings = generation.run().timings
    assert timings.prefill_s == 2.0
    assert timings.ttft_s == 2.5
    assert timings.decode_s == 2.5


def test_a_slow_prefill_changes_neither_the_decode_time_nor_its_rate():
    fast, slow = (Timings(1000, prefill_s, (prefill_s, 0.25, 0.25)) for prefill_s in (1.0, 50.0))
    assert fast.decode_tokens_per_s == slow.decode_tokens_per_s == 4.0
    assert fast.decode_s == slow.decode_s == 0.5
    assert (fast.prefill_tokens_per_s, slow.prefill_tokens_per_s) == (1000.0, 20.0)


@pytest.mark.parametrize(
    ("timings", "prefill_rate", "decode_rate"),
    [
        (Timings(5, 0.0, ()), None, None),
        (Timings(5, 2.0, (3.0,)), 2.5, None),
        (Timings(5, 2.0, (3.0, 0.0)), 2.5, None),
        (Timings(5, 0.0, (0.0, 0.5)), None, 2.0),
    ],
)
def test_a_rate_of_what_was_not_measured_is_none(timings, prefill_rate, decode_rate):
    assert timings.prefill_tokens_per_s == prefill_rate
    assert timings.decode_tokens_per_s == decode_rate


def test_a_generation_that_made_no_token_took_no_time():
    timings = Timings(5, 0.0, ())
    assert (repr(timings.ttft_s), repr(timings.decode_s)) == ("0.0", "0.0")


@pytest.fixture
def events(monkeypatch) -> list[object]:
    """Records every wait for a device, in place of waiting."""
    events: list[object] = []
    monkeypatch.setattr(torch.accelerator, "synchronize", events.append)
    return events


@pytest.mark.parametrize("name", ["cuda:0", "cuda:1", "mps"])
def test_an_accelerator_is_waited_for_before_every_reading(events, name):
    device = torch.device(name)
    stopwatch = Stopwatch(device, clock=lambda: events.append("clock") or 0.0)
    for _ in range(3):
        stopwatch.read()
    assert events == [device, "clock"] * 3


def test_a_cpu_is_not_waited_for(events):
    stopwatch = Stopwatch(CPU, clock=lambda: events.append("clock") or 0.0)
    stopwatch.read()
    assert events == ["clock"]


def test_every_reading_of_a_generation_comes_after_the_work_it_measures(scripted_steps, events):
    """Two readings around each token, and one more after the prefill."""
    device = torch.device("cuda:0")
    steps = scripted_steps([11, 12], before_each=lambda: events.append("work"))
    stopwatch = Stopwatch(device, clock=lambda: events.append("clock") or 0.0)
    # The tensors stay on the CPU; only the stopwatch believes in an accelerator.
    Generation(steps, [1], StopConditions(2), device=CPU, stopwatch=stopwatch).run()
    read = [device, "clock"]
    assert events == [*read, "work", *read, *read, *read, "work", *read]
