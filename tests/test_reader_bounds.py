"""The bounds of the fuzzers are felt: a reader that breaks one fails."""

import mmap
import sys

import pytest

import reader_bounds
from augur_model import ConfigError
from augur_weights import CheckpointError
from reader_bounds import Tally, check_bounded


def raising(error: Exception) -> None:
    raise error


def test_a_reader_that_succeeds_or_refuses_with_our_error_is_counted() -> None:
    tally = Tally("any")
    assert check_bounded(lambda: None, tally)
    assert not check_bounded(lambda: raising(CheckpointError("no")), tally)
    assert not check_bounded(lambda: raising(ConfigError("no")), tally)
    assert (tally.examples, tally.refused) == (3, 2)


@pytest.mark.parametrize(
    "error", [KeyError("a"), ValueError("no"), OSError("no"), MemoryError(), RecursionError("no")]
)
def test_any_other_error_comes_out(error: Exception) -> None:
    with pytest.raises(type(error)):
        check_bounded(lambda: raising(error), Tally("any"))


@pytest.mark.parametrize("message", [" ", "two\nlines", "\x1b[2J", "x" * 5000])
def test_a_message_that_is_not_one_line_for_a_person_fails(message: str) -> None:
    with pytest.raises(AssertionError):
        check_bounded(lambda: raising(ConfigError(message)), Tally("any"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from Linux's /proc")
def test_a_reader_that_takes_too_much_memory_fails() -> None:
    # A map of its own: what the process has freed before may be taken again without growing.
    def take_too_much() -> None:
        with mmap.mmap(-1, reader_bounds.MAX_BYTES + 10**7) as taken:
            taken.write(bytes(1) * len(taken))

    with pytest.raises(AssertionError):
        check_bounded(take_too_much, Tally("any"))


def test_a_reader_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_bounds, "MAX_S", 0.01)
    with pytest.raises(AssertionError):
        check_bounded(lambda: sum(range(10**7)), Tally("any"))
