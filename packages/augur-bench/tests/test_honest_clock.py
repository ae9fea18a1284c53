"""What is timed, what is not, and when the clock is read."""

import pytest
import torch
from torch import Tensor

from augur_bench import Rung, climb, result_object, worker
from augur_bench.ladder import REFERENCE
from augur_bench.limits import _fastest_s
from augur_bench.settings import WARM_UP_TOKENS
from augur_bench.worker import Worker, run_once
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

    def __init__(self, clock: FakeClock, vocab_size: int = 8) -> None:
        self._clock = clock
        self._vocab_size = vocab_size

    def prefill(self, token_ids: Tensor) -> Tensor:
        return self._pass(token_ids, 100)

    def decode(self, token_ids: Tensor) -> Tensor:
        return self._pass(token_ids, 2)

    def _pass(self, token_ids: Tensor, seconds: float) -> Tensor:
        self._clock.now_s += seconds
        return torch.zeros(token_ids.shape[0], self._vocab_size)


class SlowAtFirst(FakeSteps):
    """The first pass of either kind takes 1,000 s more."""

    passes: list[float] = []  # noqa: RUF012  (of the process, as what is set up once is)

    def _pass(self, token_ids: Tensor, seconds: float) -> Tensor:
        if seconds not in self.passes:
            self.passes.append(seconds)
            self._clock.now_s += 1000
        return super()._pass(token_ids, seconds)


@pytest.fixture
def clock(monkeypatch):
    fake = FakeClock()
    monkeypatch.setattr(torch.accelerator, "synchronize", fake.synchronize)
    return fake


def timed(clock: FakeClock, num_tokens: int) -> Timings:
    # A stopwatch for a GPU that is not there: what it does is recorded, not carried out.
    stopwatch = Stopwatch(torch.device("cuda"), clock.read)
    return run_once(FakeSteps(clock), [1] * 50, num_tokens, CPU, stopwatch).timings


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


@pytest.mark.usefixtures("workers_here")
def test_a_slow_first_prefill_and_decode_change_no_rate(clock, make_settings, monkeypatch):
    settings = make_settings(rounds=1)
    vocab_size = settings.size.config.vocab_size
    slow = Rung("slow", "at first", new_steps=lambda *_: SlowAtFirst(clock, vocab_size))
    rungs = {"slow": slow, "reference": REFERENCE}
    monkeypatch.setattr(SlowAtFirst, "passes", [])
    monkeypatch.setattr(worker, "find_rung", lambda name, _file: rungs[name])
    monkeypatch.setattr(worker, "Stopwatch", lambda device: Stopwatch(device, clock.read))
    (found,) = result_object("trial", settings, climb(settings, [(slow,)]), {})["rungs"]
    always = {"median": 100, "low": 100, "high": 100}
    assert found["warm_up_s"]["median"] == 1100 + 1002 + 2
    assert found["prefill_s"] == found["ttft_s"] == always
    assert found["decode_tokens_per_s"] == {"median": 0.5, "low": 0.5, "high": 0.5}
    assert found["token_s"] == {"p50": 2, "p95": 2}


@pytest.fixture
def loaded(make_settings) -> Worker:
    """A worker with the cached rung loaded, timed by the real clock."""
    found = Worker(make_settings())
    assert found.load("cached") > 0
    return found


def test_the_warm_up_reaches_prefill_and_decode(loaded):
    run, _ = loaded.warm_up([3, 1, 4], 16)
    assert WARM_UP_TOKENS >= 2
    assert len(run.timings.token_s) == WARM_UP_TOKENS


def test_load_first_token_and_decode_are_told_apart(loaded):
    loaded.warm_up([3, 1, 4], 16)
    timings = loaded.run([3, 1, 4], 5).timings
    assert len(timings.token_s) == 5
    assert 0 < timings.prefill_s <= timings.token_s[0]


def test_an_eos_does_not_end_a_run(loaded):
    loaded.warm_up([3, 1, 4], 64)
    assert len(loaded.run([3, 1, 4], 60).token_ids) == 60
