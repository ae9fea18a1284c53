"""Figures as text, and figures from readings."""

import pytest

from augur_bench.ladder import LADDER
from augur_bench.measure import Reading, Round
from augur_bench.report import markdown_table
from augur_bench.result import _gain, notes
from augur_bench.sheets import (
    Column,
    Sheet,
    exact,
    parting_text,
    percent,
    quantity,
    times_range,
    with_spread,
)
from augur_bench.spread import Spread, percentile
from augur_bench.sweep import ratio_grows
from augur_bench.worker import Run
from augur_gen import Timings


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.00123, "1.2e-03"),
        (0.1234, "0.123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
    ],
)
def test_quantities_have_three_digits(value, text):
    assert quantity(value) == text


def test_a_spread_is_shown_with_its_median():
    spread = {"median": 5.0, "low": 4.8, "high": 5.3}
    assert with_spread(spread) == "5.00 ±5%"
    assert times_range(spread) == "5.00x (4.80-5.30)"


def test_one_reading_has_no_spread():
    once = {"median": 5.0, "low": 5.0, "high": 5.0}
    assert with_spread(once) == "5.00 ±-"
    assert with_spread(once, unit="x") == "5.00x ±-"
    assert times_range(once) == "5.00x (-)"
    assert percent({"of_roofline": {"median": 0.5, "low": 0.5, "high": 0.5}}) == "50 ±-"


def test_only_exactly_zero_is_shown_as_0():
    assert exact(0.0) == "0"
    assert exact(1e-300) == "1.0e-300"


def test_a_parting_is_counted_from_1():
    assert parting_text({"num_tokens": 32, "index": None}) == "none in 32"
    assert parting_text({"num_tokens": 32, "index": 11, "margin": 0.25}) == "at 12 (0.250)"


def test_a_spread_is_the_median_and_the_range():
    assert Spread.of([3, 1, 2, 10]) == Spread(2.5, 1, 10)
    assert Spread.of_known([1.0, None]) is None


def test_the_quotient_of_two_spreads_is_as_wide_as_it_can_be():
    assert Spread(4, 2, 6).over(Spread(2, 1, 4)) == Spread(2, 0.5, 6)


def test_the_quotient_of_two_rungs_is_taken_round_by_round():
    parent, ours = Reading(LADDER["cached"]), Reading(LADDER["sdpa"])

    def round_of(prefill_s: float, decode_s: float) -> Round:
        run = Run(Timings(8, prefill_s, (prefill_s, decode_s)), [1, 2], [3, 4], None)
        return Round(0.1, run, True, [run])

    for slower in (1, 3):  # the machine is three times slower in the second round
        parent.rounds.append(round_of(0.4 * slower, 0.2 * slower))
        ours.rounds.append(round_of(0.2 * slower, 0.05 * slower))
    gain = _gain(ours, parent)
    assert gain["prefill"] == pytest.approx({"median": 2, "low": 2, "high": 2})
    assert gain["decode"] == pytest.approx({"median": 4, "low": 4, "high": 4})


def test_rounds_together_have_the_middle_of_their_medians_and_the_whole_range():
    assert Spread.across([Spread(2, 1, 5), Spread(4, 3, 4)]) == Spread(3, 1, 5)


def test_percentiles_are_values_that_were_seen():
    values = list(range(1, 21))
    assert (percentile(values, 50), percentile(values, 95), percentile(values, 100)) == (10, 19, 20)
    assert percentile([7.0], 95) == 7.0
    assert percentile([], 50) is None


def test_a_markdown_table_aligns_numbers_right_and_keeps_its_cells():
    columns = Column("rung", lambda row: row["name"], is_words=True), Column("load\ns", str)
    table = markdown_table(Sheet("t", columns, [{"name": "a|b"}]))
    assert table.splitlines() == [
        "| rung | load s |",
        "| :-- | --: |",
        "| a\\|b | {'name': 'a\\|b'} |",
    ]


def rung(low: float, *, same_tokens: bool = True):
    share = {"of_roofline": {"median": low, "low": low, "high": low}}
    return {
        "name": "trial",
        "share": {"prefill": share, "decode": None},
        "verdict": {"held": True, "share": 0.5},
        "same_tokens_every_run": same_tokens,
        "same_logits_every_run": same_tokens,
    }


def test_a_busy_machine_is_noted():
    assert "busy" in notes({"load_average": 1.5, "cpu_count": 2}, [])[0]
    assert notes({"load_average": 0.3, "cpu_count": 2}, []) == []
    assert notes({"load_average": None, "cpu_count": None}, []) == []


def test_a_share_above_the_limit_beyond_its_noise_is_noted():
    quiet = {"load_average": 0.0, "cpu_count": 2}
    assert "above the limit" in notes(quiet, [rung(1.01)])[0]
    assert notes(quiet, [rung(0.99)]) == []


def test_runs_that_choose_other_tokens_are_noted():
    quiet = {"load_average": 0.0, "cpu_count": 2}
    assert "same tokens" in notes(quiet, [rung(0.5, same_tokens=False)])[0]


def test_a_ratio_grows_if_its_ends_lie_apart():
    def points(*ratios: tuple[float, float]) -> list[dict]:
        return [{"decode_ratio": {"low": low, "high": high}} for low, high in ratios]

    assert ratio_grows(points((2, 3), (2.5, 4), (3.5, 5)))
    assert not ratio_grows(points((2, 3), (5, 6), (2.5, 4)))
    assert not ratio_grows(points((2, 3)))
