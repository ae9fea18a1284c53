"""What is timed, what is not, and when the clock is read."""

import pytest
import torch
from torch import Tensor

from augur_bench.limits import _fastest_s
from augur_bench.worker import WARM_UP_TOKENS, Worker, run_once
from augur_gen import Steps, Stopwatch, Timings

CPU = torch.device("cpu")


class FakeClock:
    """A clock that goes on when it is told to, and keeps count of what happened."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events: list[str] = []

    def read(self) -> float:
        self.events.append("read")
        return self.now_s

    def synchronize(self, *_: object) -> None:
        self.events.append("synchronize")


class FakeSteps(Steps):
    """A prefill of 100 s and decodes of 2 s, by the fake clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def prefill(self, token_ids: Tensor) -> Tensor:
        self._clock.now_s += 100
        return torch.zeros(token_ids.shape[0], 8)

    def decode(self, token_ids: Tensor) -> Tensor:
        self._clock.now_s += 2
        return torch.zeros(token_ids.shape[0], 8)


@pytest.fixture
def clock(monkeypatch):
    fake = FakeClock()
    monkeypatch.setattr(torch.accelerator, "synchronize", fake.synchronize)
    return fake


def timed(clock: FakeClock, num_tokens: int) -> Timings:
    # A stopwatch for a GPU that is not there: what it does is recorded, not carried out.
    stopwatch = Stopwatch(torch.device("cuda"), clock.read)
    steps = FakeSteps(clock)
    return run_once(lambda: steps, [1] * 50, num_tokens, CPU, stopwatch).timings


def test_the_device_is_synchronised_before_each_reading(clock):
    timed(clock, 4)
    assert clock.events.count("read") >= 8
    assert clock.events == ["synchronize", "read"] * (len(clock.events) // 2)


def test_the_limits_are_read_with_the_device_synchronised(clock):
    _fastest_s(lambda: clock.events.append("work"), Stopwatch(torch.device("cuda"), clock.read))
    readings = [index for index, event in enumerate(clock.events) if event == "read"]
    assert len(readings) >= 2
    assert all(clock.events[index - 1] == "synchronize" for index in readings)


def test_the_decode_rate_counts_no_prompt_token_and_not_the_first_token(clock):
    timings = timed(clock, 5)
    assert timings.prefill_tokens_per_s == 50 / 100
    assert timings.ttft_s == 100
    assert timings.decode_tokens_per_s == 4 / 8


def test_one_token_gives_no_decode_rate(clock):
    assert timed(clock, 1).decode_tokens_per_s is None


def test_the_warm_up_reaches_prefill_and_decode(tiny_folder):
    worker = Worker("cpu", None)
    worker.load("cached", None, str(tiny_folder), "float32")
    answer = worker.warm_up([3, 1, 4], 16)
    assert WARM_UP_TOKENS >= 2
    assert len(answer["token_s"]) == WARM_UP_TOKENS


def test_load_first_token_and_decode_are_told_apart(tiny_folder):
    worker = Worker("cpu", None)
    assert worker.load("cached", None, str(tiny_folder), "float32")["load_s"] > 0
    worker.warm_up([3, 1, 4], 16)
    answer = worker.run([3, 1, 4], 5)
    assert len(answer["token_s"]) == 5
    assert 0 < answer["prefill_s"] <= answer["token_s"][0]


def test_an_eos_does_not_end_a_run(tiny_folder):
    worker = Worker("cpu", None)
    worker.load("cached", None, str(tiny_folder), "float32")
    worker.warm_up([3, 1, 4], 64)
    assert len(worker.run([3, 1, 4], 60)["token_ids"]) == 60
