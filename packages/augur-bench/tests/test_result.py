"""What one run of the bench comes to, and the report of it."""

import json
import re
from xml.etree import ElementTree

import pytest
from PIL import Image
from worker_here import TRIAL_RUNGS, WorkerHere, work_here

from augur_bench import (
    RungFailedError,
    choose_pairs,
    choose_rungs,
    climb,
    result_object,
    run_sweeps,
    write_report,
)
from augur_bench.report import footnotes


@pytest.fixture
def climbed(make_settings, monkeypatch):
    """The result of some rungs, a single round unless the settings say."""

    work_here(monkeypatch)

    def run(names: str, **settings):
        chosen = make_settings(**({"rounds": 1} | settings))
        groups = choose_pairs(choose_rungs(names, TRIAL_RUNGS))
        return result_object("tiny", chosen, climb(chosen, groups), {})

    return run


def rung_of(result, name):
    return next(rung for rung in result["rungs"] if rung["name"] == name)


def test_a_rung_of_a_file_joins_the_ladder_by_one_entry(result):
    assert [rung["name"] for rung in result["rungs"]] == ["cached", "sdpa", "bfloat16", "no-bias"]
    assert rung_of(result, "no-bias")["parent"] == "cached"
    assert rung_of(result, "no-bias")["gain"] is not None


def test_the_eager_rung_shows_exactly_no_difference_and_a_wrong_one_does(result):
    exactness = rung_of(result, "cached")["exactness"]
    # Six after the timed prompt, two after each of three.
    assert (exactness["num_prompts"], exactness["num_positions"]) == (4, 6 + 3 * 2)
    assert exactness["max_abs_diff"] == exactness["max_kl_nats"] == 0
    assert exactness["num_same_top"] == 12
    assert exactness["own_text"]["index"] is None
    assert rung_of(result, "no-bias")["exactness"]["max_abs_diff"] > 1e-3


def test_rounding_explains_right_rungs_and_not_wrong_ones(result):
    for name in ("cached", "sdpa", "bfloat16"):
        assert rung_of(result, name)["verdict"]["held"]
    assert rung_of(result, "cached")["verdict"]["share"] == 0
    assert rung_of(result, "bfloat16")["verdict"]["share"] > 0.5
    wrong = rung_of(result, "no-bias")["verdict"]
    assert not wrong["held"]
    assert wrong["share"] > 10
    (line,) = (line for line in footnotes(result) if line.startswith("of what rounding explains: "))
    assert "cached 0%, sdpa " in line
    assert "no-bias FAILED " in line
    (note,) = (note for note in result["notes"] if "rounding does not explain" in note)
    assert note.startswith("no-bias: ")


def test_a_wrong_rung_in_half_precision_is_told_by_the_plain_ops_own_error(climbed):
    right, wrong = climbed("cached,no-bias", dtype="bfloat16")["rungs"]
    assert (right["verdict"]["held"], wrong["verdict"]["held"]) == (True, False)


def test_a_rung_that_cannot_run_says_why_and_is_left_out(result):
    assert result["left_out"] == [
        {"name": "lacking", "reason": "there is no abacus here"},
        {"name": "unfitting", "reason": "this model is too small for it"},
    ]


def test_every_run_makes_as_many_tokens_as_asked_for(result):
    for rung in result["rungs"]:
        runs = [(run["round"], len(run["token_s"])) for run in rung["runs"]]
        assert runs == [(0, 6), (0, 6), (1, 6), (1, 6)]
        assert len(rung["token_ids"]) == 6


def test_the_sweeps_cover_the_lengths_asked_for(result):
    prompt, new = (result["sweeps"][name]["points"] for name in ("prompt", "new-tokens"))
    assert [point["prompt_tokens"] for point in prompt] == [4, 8]
    assert [point["new_tokens"] for point in new] == [4, 8]
    assert prompt[0]["cache_bytes"] < prompt[1]["cache_bytes"]


def test_the_next_round_goes_the_other_way_and_compares_no_logits_again(climbed):
    climbed("uncached,cached", rounds=2)
    loaded = [name for command, name in WorkerHere.asked if command == "load"]
    assert loaded == ["reference", "uncached", "cached", "cached", "uncached"]
    compared = [name for command, name in WorkerHere.asked if command == "compare"]
    assert compared == ["uncached", "cached"]
    # Before each of its rungs.
    assert [command for command, _ in WorkerHere.asked].count("machine") == 4


def test_a_late_error_in_the_timed_prompt_is_seen(climbed):
    (rung,) = climbed("late-boost")["rungs"]
    assert rung["exactness"]["max_abs_diff"] == pytest.approx(100, abs=1e-3)
    assert rung["exactness"]["max_kl_nats"] > 0
    assert rung["exactness"]["own_text"]["index"] is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("breaking", "breaking failed while generating: ArithmeticError: the kernel on trial gave"),
        ("late-minus-inf", "after 4 new tokens, a logit is -inf"),
        ("one-logit", r"after 0 new tokens, the logits are \[1, 1\], expected \[1, "),
        ("numbered", "missing gave 5, expected a sentence or None"),
    ],
)
def test_a_rung_that_breaks_ends_the_bench(name, message, climbed):
    with pytest.raises(RungFailedError, match=message):
        climbed(f"cached,{name}")


def test_runs_that_waver_are_noted_and_those_that_do_not_are_not(climbed):
    found = climbed("cached,wavering", rounds=2)
    cached, wavering = found["rungs"]
    assert cached["same_logits_every_run"]
    assert not wavering["same_logits_every_run"]
    assert wavering["same_tokens_every_run"]
    (note,) = (note for note in found["notes"] if "did not all" in note)
    assert note.startswith("wavering: its runs did not all give the same logits")


def test_the_report_has_a_page_its_data_and_all_pictures(result, report_folder):
    page = (report_folder / "report.md").read_text(encoding="utf-8")
    assert json.loads((report_folder / "bench.json").read_text(encoding="utf-8")) == result
    for name in ("ladder", "roofline", "growth-prompt", "growth-new-tokens", "throughput"):
        assert f"]({name}.svg)" in page
        root = ElementTree.parse(report_folder / f"{name}.svg").getroot()
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 50
        with Image.open(report_folder / f"{name}.png") as picture:
            assert picture.width >= 1200
            assert picture.height >= 500
            assert len(picture.convert("RGB").getcolors(maxcolors=1_000_000)) > 50


@pytest.mark.gate
@pytest.mark.usefixtures("workers_here")
def test_a_report_without_a_rung_says_why(make_settings, tmp_path):
    settings = make_settings(rounds=1)
    found = climb(settings, choose_pairs(choose_rungs("lacking", TRIAL_RUNGS)))
    write_report(
        result_object("tiny", settings, found, run_sweeps({"new-tokens": [2]}, settings)), tmp_path
    )
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "lacking left out: there is no abacus here" in page
    pictures = re.findall(r"\]\(([^)]+)\)", page)
    assert "growth-new-tokens.svg" in pictures
    assert all((tmp_path / picture).is_file() for picture in pictures)
