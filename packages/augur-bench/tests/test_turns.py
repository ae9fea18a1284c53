"""How often a rung is run, and in which order."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from augur_bench import measure
from augur_bench.measure import take_turns


@dataclass
class TimedWorker:
    """Takes so many seconds of a clock that only it moves."""

    name: str
    seconds: float
    clock: SimpleNamespace
    order: list[str]

    def ask(self, *_request: object) -> None:
        self.clock.now_s += self.seconds
        self.order.append(self.name)


@pytest.fixture
def turns(monkeypatch):
    def run(seconds: dict[str, float], **settings: float) -> str:
        clock, order = SimpleNamespace(now_s=0.0), []
        monkeypatch.setattr(measure.time, "perf_counter", lambda: clock.now_s)
        workers = {name: TimedWorker(name, one, clock, order) for name, one in seconds.items()}
        take_turns(workers, [1], 8, SimpleNamespace(**settings), lambda _line: None)
        return "".join(order)

    return run


def test_rungs_side_by_side_take_turns_in_the_other_order_every_other_time(turns):
    assert turns({"a": 1, "b": 1}, repeats=3, rounds=1, rung_seconds=30) == "abbaab"


def test_a_rung_is_not_begun_again_beyond_its_rounds_part_of_the_time(turns):
    assert turns({"a": 7}, repeats=3, rounds=2, rung_seconds=30) == "aa"
    assert turns({"a": 8}, repeats=3, rounds=2, rung_seconds=30) == "a"
    assert turns({"a": 8}, repeats=3, rounds=1, rung_seconds=30) == "aaa"


def test_rungs_side_by_side_share_the_time_of_all(turns):
    assert turns({"a": 2, "b": 12}, repeats=2, rounds=2, rung_seconds=30) == "abba"


def test_every_round_has_a_run_and_a_rung_two(turns):
    assert turns({"a": 99}, repeats=3, rounds=3, rung_seconds=0) == "a"
    assert turns({"a": 99}, repeats=3, rounds=2, rung_seconds=0) == "a"
    assert turns({"a": 99}, repeats=3, rounds=1, rung_seconds=0) == "aa"
    assert turns({"a": 99}, repeats=1, rounds=1, rung_seconds=0) == "a"
