"""The bench as a person runs it."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console
from worker_here import TRIAL_RUNGS

from augur_apps import bench
from augur_bench import LADDER
from program_run import APPS, run_program

SCHEMA = json.loads(Path(__file__).with_name("bench.schema.json").read_text(encoding="utf-8"))
SHORT = ("--max-new-tokens", "2", "--rounds", "1", "--repeats", "1", "--rungs", "cached")


def test_the_json_object_keeps_its_schema(result):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(result, SCHEMA)


def test_the_schema_refuses_an_object_that_lacks_a_figure(result):
    lacking = json.loads(json.dumps(result))
    del lacking["rungs"][0]["exactness"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(lacking, SCHEMA)


def test_the_eager_rung_and_transformers_show_exactly_no_difference(result):
    cached, peer = result["rungs"][:2]
    assert (cached["name"], peer["name"]) == ("cached", "transformers-eager")
    for exactness in (cached["exactness"], peer["exactness"]):
        # Six after the timed prompt, two after each of ten.
        assert (exactness["num_prompts"], exactness["num_positions"]) == (11, 6 + 10 * 2)
        assert exactness["max_abs_diff"] == exactness["max_kl_nats"] == 0
        assert exactness["num_same_top"] == 26
        assert exactness["own_text"]["index"] is None


def test_a_peer_is_measured_in_turns_and_compared_with_a_spread(result):
    (pair,) = result["pairs"]
    assert (pair["ours"], pair["theirs"]) == ("cached", "transformers-eager")
    for phase in ("prefill", "ttft", "decode"):
        assert pair[phase]["low"] <= pair[phase]["median"] <= pair[phase]["high"]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_tables_fit_a_terminal_and_show_every_rung_whole(width, result):
    for rung in result["rungs"]:  # as wide as figures get
        rung["exactness"]["own_text"] = {"num_tokens": 32, "index": 30, "margin": 0.0012}
        rung["ttft_s"] = rung["load_s"] = {"median": 0.414, "low": 0.1, "high": 1.2}
        rung["decode_tokens_per_s"] = {"median": 101.5, "low": 50, "high": 150}
    page = io.StringIO()
    bench.print_result(Console(file=page, width=width), result)
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in page.getvalue()
    assert page.getvalue().count("decode") >= 4
    for rung in result["rungs"]:
        assert sum(line.split()[:1] == [rung["name"]] for line in lines) >= 3
    assert any(line == "lacking left out: there is no abacus here" for line in lines)


def test_a_result_that_does_not_go_to_a_terminal_is_100_columns_wide(run_bench):
    done = run_bench(*SHORT, "--rungs", "cached")
    assert done.returncode == 0, done.stderr
    assert 80 < max(map(len, done.stdout.splitlines())) <= 100
    assert "cached: run 1 of 1" in done.stderr


def test_a_rung_that_breaks_midway_ends_with_a_message_and_no_rate(run_bench):
    done = run_bench(
        *("--max-new-tokens", "6", "--rungs", "cached,breaking", "--rungs-from", TRIAL_RUNGS),
    )
    assert done.returncode == 1
    assert "error: breaking failed while generating" in done.stderr
    assert "the kernel on trial gave up" in done.stderr
    assert "tokens/s" not in done.stderr
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
        (("--rungs-from", "nowhere.py"), "--rungs-from nowhere.py: expected a Python file"),
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(arguments, message, run_bench):
    done = run_bench(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_file_that_cannot_be_written_in_the_end_does_not_lose_the_others(
    result, tmp_path, capsys
):
    bench._check_outputs(str(tmp_path / "bench.json"), tmp_path / "report")
    (tmp_path / "bench.json").mkdir()
    without_pictures = result | {"rungs": [], "sweeps": {}}
    with pytest.raises(IsADirectoryError):
        bench._show(without_pictures, str(tmp_path / "bench.json"), tmp_path / "report")
    assert (tmp_path / "report" / "report.md").is_file()
    assert "transformers-eager" in capsys.readouterr().out


def test_a_single_run_has_no_spread_and_a_single_token_no_plural(run_bench):
    done = run_bench(*SHORT, "--max-new-tokens", "1")
    assert done.returncode == 0, done.stderr
    assert (
        "1 new token; 1 round of up to 1 run; logits compared there and over 10 prompts"
        in done.stdout
    )
    assert "±-" in done.stdout
    assert "±0" not in done.stdout


def test_help_waits_for_neither_torch_nor_matplotlib():
    source = (
        "import sys; from augur_apps import bench; bench.app(standalone_mode=False)"
        "; print(sorted({'torch', 'matplotlib', 'transformers'} & set(sys.modules)))"
    )
    command = sys.executable, "-c", source, "--help"
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--rungs-from" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.gate
def test_the_program_runs_each_rung_in_its_own_process(tiny_folder, tmp_path):
    done = run_program(
        *("bench.py", "--model", tiny_folder, *SHORT, "--threads", "1"),
        *("--device", "cpu", "--json", tmp_path / "bench.json"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, SCHEMA)
    assert found["environment"]["threads"] == 1
    (rung,) = found["rungs"]
    assert rung["exactness"]["max_abs_diff"] == 0
    assert "decode" in done.stdout


@pytest.mark.gate
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_no_process_and_no_file_behind(number, status, tiny_folder, tmp_path):
    with subprocess.Popen(
        [sys.executable, APPS / "bench.py", "--model", tiny_folder, "--device", "cpu", *SHORT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    ) as program:
        for line in program.stderr:
            if "cached: loading" in line:
                break
        assert list(tmp_path.glob("augur-bench-*"))
        # As a terminal does it: to the program and all that it started.
        os.killpg(program.pid, number)
        # Both pipes end only when the last process that could write to them has ended.
        stdout, stderr = program.communicate(timeout=60)
    assert (program.returncode, stdout) == (status, "")
    assert "Traceback" not in stderr
    assert not list(tmp_path.glob("augur-bench-*"))


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
