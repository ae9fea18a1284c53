"""The bench as a person runs it."""

import io
import json
import os
import re
import signal
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from PIL import Image
from rich.console import Console

from augur_apps import bench
from augur_bench.ladder import LADDER
from augur_bench.tables import WIDTH, print_result
from bench_here import TRIAL_RUNGS, WorkerHere
from program_run import run_program

SLEEP_S = 2.0
"""As in that file."""

SCHEMA = json.loads(Path(__file__).with_name("bench.schema.json").read_text(encoding="utf-8"))


def rung_of(result, name):
    return next(rung for rung in result["rungs"] if rung["name"] == name)


def test_the_json_object_keeps_its_schema(result):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(result, SCHEMA)


def test_the_schema_refuses_an_object_that_lacks_a_figure(result):
    lacking = json.loads(json.dumps(result))
    del lacking["rungs"][0]["exactness"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(lacking, SCHEMA)


def test_a_rung_of_a_file_joins_the_ladder_by_one_entry(result):
    names = [rung["name"] for rung in result["rungs"]]
    assert names == ["cached", "transformers-eager", "bfloat16", "sleepy"]
    assert rung_of(result, "sleepy")["parent"] == "cached"
    assert rung_of(result, "sleepy")["gain"] is not None


def test_the_eager_rung_and_transformers_show_exactly_no_difference(result):
    for name in ("cached", "transformers-eager"):
        exactness = rung_of(result, name)["exactness"]
        # Six after the timed prompt, two after each of ten.
        assert (exactness["num_prompts"], exactness["num_positions"]) == (11, 6 + 10 * 2)
        assert exactness["max_abs_diff"] == 0
        assert exactness["max_kl_nats"] == 0
        assert exactness["num_same_top"] == 26
        assert exactness["own_text"]["index"] is None


def test_a_slow_first_prefill_and_decode_change_no_rate(result):
    sleepy = rung_of(result, "sleepy")
    assert sleepy["warm_up_s"]["low"] > 2 * SLEEP_S
    assert sleepy["prefill_s"]["high"] < SLEEP_S
    assert all(max(run["token_s"]) < SLEEP_S for run in sleepy["runs"])
    assert sleepy["decode_tokens_per_s"]["low"] > 1 / SLEEP_S


def test_a_rung_that_cannot_run_says_why_and_is_left_out(result):
    assert result["left_out"] == [
        {"name": "lacking", "reason": "there is no abacus here"},
        {"name": "unfitting", "reason": "this model is too small for it"},
    ]


def test_a_peer_is_measured_in_turns_and_compared_with_a_spread(result):
    (pair,) = result["pairs"]
    assert (pair["ours"], pair["theirs"]) == ("cached", "transformers-eager")
    for phase in ("prefill", "ttft", "decode"):
        assert pair[phase]["low"] <= pair[phase]["median"] <= pair[phase]["high"]


def test_the_next_round_goes_the_other_way_and_compares_no_logits_again(
    tiny_folder, run_bench, monkeypatch
):
    asked = []
    ask = WorkerHere.ask
    monkeypatch.setattr(
        WorkerHere,
        "ask",
        lambda worker, do, **rest: asked.append((do, worker)) or ask(worker, do, **rest),
    )
    done = run_bench(
        *("--model", tiny_folder, "--max-new-tokens", "2", "--device", "cpu", "--repeats", "1"),
        *("--rungs", "uncached,cached", "--against", "transformers"),
    )
    assert done.exit_code == 0, done.output
    up = ["uncached", "cached", "transformers-eager"]
    loaded = [worker.name for do, worker in asked if do == "load"]
    assert loaded == ["reference", *up, *reversed(up)]
    assert [worker.name for do, worker in asked if do == "compare"] == up
    # Nor is anything found compiled by an earlier process.
    assert len({worker.scratch for do, worker in asked if do == "load"}) == len(loaded)


def test_the_sweeps_cover_the_lengths_asked_for(result):
    prompt, new = (result["sweeps"][name]["points"] for name in ("prompt", "new-tokens"))
    assert [point["prompt_tokens"] for point in prompt] == [4, 8]
    assert [point["new_tokens"] for point in new] == [4, 8]
    assert prompt[0]["cache_bytes"] < prompt[1]["cache_bytes"]


def test_every_run_makes_as_many_tokens_as_asked_for(result):
    for rung in result["rungs"]:
        assert [(run["round"], len(run["token_s"])) for run in rung["runs"]] == [
            (0, 6),
            (0, 6),
            (1, 6),
            (1, 6),
        ]
        assert len(rung["token_ids"]) == 6


def test_the_tables_fit_100_columns_and_show_every_rung(result):
    page = io.StringIO()
    print_result(Console(file=page, width=WIDTH), result)
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert "…" not in page.getvalue()
    for rung in result["rungs"]:
        assert sum(line.split()[:1] == [rung["name"]] for line in lines) >= 3
    assert any(line == "lacking left out: there is no abacus here" for line in lines)


def test_the_report_has_a_page_its_data_and_all_pictures(result, report_folder):
    page = (report_folder / "report.md").read_text(encoding="utf-8")
    assert json.loads((report_folder / "bench.json").read_text(encoding="utf-8")) == result
    for name in ("ladder", "roofline", "growth-prompt", "growth-new-tokens"):
        assert f"]({name}.svg)" in page
        root = ElementTree.parse(report_folder / f"{name}.svg").getroot()
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 50
        with Image.open(report_folder / f"{name}.png") as picture:
            assert picture.width >= 1200
            assert picture.height >= 500
            assert len(picture.convert("RGB").getcolors(maxcolors=1_000_000)) > 50


def test_the_program_runs_each_rung_in_its_own_process(tiny_folder, tmp_path):
    done = run_program(
        "bench.py",
        *("--model", tiny_folder, "--max-new-tokens", "3", "--check-tokens", "1"),
        *("--rungs", "cached", "--threads", "1", "--json", tmp_path / "bench.json"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert found["environment"]["threads"] == 1
    (rung,) = found["rungs"]
    assert rung["exactness"]["max_abs_diff"] == 0
    assert "cached: run 2 of 2" in done.stderr
    assert "decode" in done.stdout


def test_a_rung_that_breaks_midway_ends_with_a_message_and_no_rate(tiny_folder, run_bench):
    done = run_bench(
        *("--model", tiny_folder, "--max-new-tokens", "6", "--check-tokens", "1"),
        *("--rungs", "cached,breaking", "--rungs-from", TRIAL_RUNGS),
    )
    assert done.exit_code == 1
    assert "error: breaking failed" in done.stderr
    assert "the kernel on trial gave up" in done.stderr
    assert "tokens/s" not in done.output
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rungs", "cached,warp-speed"), "no rung warp-speed"),
        (("--rungs", "cached,warp-speed"), ", ".join(LADDER)),
        (("--rungs", "uncached", "--against", "transformers"), "cached and sdpa"),
        (("--device", "abacus"), "--device is 'abacus': this machine has"),
        (("--max-new-tokens", "600"), "the model has 512 positions"),
        (("--prompt-tokens", "600"), "the model has 512 positions"),
        (("--sweep", "prompt", "--sweep-at", "8,600"), "length 600 is not possible"),
        (("--sweep", "new-tokens", "--sweep-at", "1"), "length 1 is not possible"),
        (("--sweep", "prompt", "--sweep-at", "8,x"), "expected whole numbers"),
        (("--sweep-at", "8,16"), "--sweep-at belongs to --sweep"),
        (("--check-tokens", "500"), "the longest check prompt has"),
        (("--json", "."), "--json .: is a folder"),
        (("--json", "no/such/bench.json"), "there is no folder no/such"),
        (("--report", __file__), "is a file, expected a folder"),
        (("--report", f"{__file__}/report"), "is a file, expected a folder"),
        (("--model", "./nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(arguments, message, tiny_folder, run_bench):
    done = run_bench("--model", tiny_folder, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_file_that_cannot_be_written_in_the_end_does_not_lose_the_others(
    result, tmp_path, capsys
):
    bench._check_outputs(str(tmp_path / "bench.json"), tmp_path / "report")
    (tmp_path / "bench.json").mkdir()
    with pytest.raises(IsADirectoryError):
        bench._show(result, str(tmp_path / "bench.json"), tmp_path / "report")
    assert (tmp_path / "report" / "report.md").is_file()
    assert "tokens/s" in capsys.readouterr().out


def test_a_single_run_has_no_spread_and_a_single_token_no_plural(tiny_folder, run_bench):
    done = run_bench(
        *("--model", tiny_folder, "--max-new-tokens", "1", "--check-tokens", "1"),
        *("--rounds", "1", "--repeats", "1", "--rungs", "cached", "--device", "cpu"),
    )
    assert done.exit_code == 0, done.output
    assert (
        "1 new token; 1 round of up to 1 run; logits compared there and over 10 prompts"
        in done.stdout
    )
    assert "±-" in done.stdout
    assert "±0" not in done.stdout


@pytest.mark.parametrize("name", ["late-boost", "late-minus-inf", "one-logit"])
def test_what_goes_wrong_late_in_the_timed_prompt_is_not_shown_as_exact(
    name, tiny_folder, run_bench
):
    done = run_bench(
        *("--model", tiny_folder, "--max-new-tokens", "6", "--check-tokens", "3", "--json", "-"),
        *("--rungs", name, "--rungs-from", TRIAL_RUNGS, "--rounds", "1", "--device", "cpu"),
    )
    if name == "late-boost":
        exactness = rung_of(json.loads(done.stdout), name)["exactness"]
        assert exactness["max_abs_diff"] == pytest.approx(100, abs=1e-3)
        assert exactness["max_kl_nats"] > 0
        assert exactness["own_text"]["index"] is None
    else:
        assert done.exit_code == 1
        message = {
            "late-minus-inf": "after 4 new tokens, a logit is -inf",
            "one-logit": "after 0 new tokens, the logits are [1, 1], expected [1, ",
        }
        assert message[name] in done.stderr
        assert done.stdout == ""


def test_runs_that_waver_are_noted_and_those_that_do_not_are_not(tiny_folder, run_bench):
    done = run_bench(
        *("--model", tiny_folder, "--max-new-tokens", "4", "--device", "cpu", "--json", "-"),
        *("--rungs", "cached,wavering", "--rungs-from", TRIAL_RUNGS),
    )
    found = json.loads(done.stdout)
    cached, wavering = found["rungs"]
    assert cached["same_logits_every_run"]
    assert not wavering["same_logits_every_run"]
    assert wavering["same_tokens_every_run"]
    (note,) = (note for note in found["notes"] if "busy" not in note)
    assert note.startswith("wavering: its runs did not all give the same logits")


def test_a_report_without_a_rung_says_why(tiny_folder, run_bench, tmp_path):
    done = run_bench(
        *("--model", tiny_folder, "--max-new-tokens", "2", "--device", "cpu", "--rounds", "1"),
        *("--rungs", "lacking", "--rungs-from", TRIAL_RUNGS, "--report", tmp_path / "report"),
        *("--sweep", "new-tokens", "--sweep-at", "2"),
    )
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "lacking left out: there is no abacus here" in page
    for picture in re.findall(r"\]\(([^)]+)\)", page):
        assert (tmp_path / "report" / picture).is_file()


def test_what_a_rung_lacks_is_a_sentence(tiny_folder, run_bench):
    done = run_bench(
        *("--model", tiny_folder, "--rungs", "numbered", "--rungs-from", TRIAL_RUNGS),
    )
    assert done.exit_code == 1
    assert "missing gave 5, expected a sentence or None" in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_it_as_an_error_does_however_many_come(number, status):
    finished = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)
            finished.append(True)

    with pytest.raises(SystemExit) as ended, bench._clear_errors(debug=False):
        work()
    assert finished
    assert ended.value.code == status
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with bench._clear_errors(debug=False):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
