"""`kernel` judges one op alone, in one command, without a model."""

import json
import sys

import pytest

from augur_apps import parity_kernel


@pytest.fixture(autouse=True)
def _no_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "triton", None)


def test_a_wrong_norm_is_rejected_and_the_first_lines_say_what_and_where(parity):
    result = parity(
        "kernel", "kernels_on_trial:epsilon_outside", "--op", "rms_norm", "--dtype", "bfloat16"
    )
    assert result.exit_code == 1
    verdict, worst, where, likely, on, *_ = result.stdout.splitlines()
    assert verdict.startswith("rms_norm: REJECTED, ")
    assert verdict.endswith(" of 16 workloads failed")
    assert worst.startswith("  worst   its ")
    assert where == "  where   everywhere"
    assert likely.startswith("  likely  epsilon is added outside the root (fits ")
    assert "; seed " in on
    rows = [line for line in result.stdout.splitlines() if " bf16 " in line]
    assert len(rows) == 16
    assert rows[0].split()[0] == "FAILED"
    # The wrong ones stand before the others.
    assert sorted(row.split()[0] for row in rows) == [row.split()[0] for row in rows]


def test_on_a_narrow_terminal_no_figure_is_cut_off(parity, monkeypatch):
    monkeypatch.setattr(parity_kernel.stdout, "width", 60)
    asked = ("--op", "rms_norm", "--dtype", "bfloat16", "--smallest", "2")
    result = parity("kernel", "kernels_on_trial:epsilon_outside", *asked)
    table = result.stdout[result.stdout.index("workload") :]
    assert table.count(" bf16 ") == 2
    # Of the workload alone.
    assert table.count("…") <= 2


def test_a_right_norm_is_conformant_and_the_report_has_figures_and_a_picture(parity, tmp_path):
    folder = tmp_path / "report"
    asked = ("--op", "rms_norm", "--dtype", "float16", "--report", folder)
    result = parity("kernel", "kernels_on_trial:right", *asked)
    assert result.exit_code == 0, result.stdout
    assert result.stdout.startswith("rms_norm: conformant, all 16 workloads held")
    assert "rounds  weight before rounding back" in result.stdout
    assert "note    it calls torch's own " in result.stdout
    told = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    assert (told["held"], told["label"]) == (True, "conformant")
    (op,) = told["ops"]
    assert len(op["workloads"]) == 16
    for line in op["workloads"]:
        assert line["errors"]["share_of_budget"] <= 1
        assert line["rate"]["seconds"] > 0
    assert (folder / "rms_norm.svg").stat().st_size > 5000
    assert (folder / "rms_norm.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert "rms_norm: conformant" in page
    assert "![rms_norm](rms_norm.svg)" in page


def test_a_pass_under_the_interpreter_is_called_semantics(parity, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    asked = ("--op", "rms_norm", "--dtype", "float32", "--no-time")
    result = parity("kernel", "kernels_on_trial:right", *asked)
    assert result.exit_code == 0
    assert result.stdout.startswith("rms_norm: semantics, all 16 workloads held")


@pytest.mark.gate
def test_one_op_of_a_table_is_judged_and_json_is_one_object(parity):
    asked = ("--op", "swiglu", "--dtype", "float32", "--no-time", "--json")
    result = parity("kernel", "kernels_on_trial:WRONG_SWIGLU", *asked)
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["held"], told["label"]) == (False, None)
    assert [op["op"] for op in told["ops"]] == ["swiglu"]
    assert not told["ops"][0]["workloads"][0]["held"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("kernels_on_trial:right",), "say with --op which op right replaces"),
        (("kernels_on_trial:right", "--op", "norm"), "--op norm: no such op, expected one of "),
        (
            ("kernels_on_trial:left", "--op", "swiglu"),
            "left does not exist, expected a function",
        ),
        (("nowhere:left", "--op", "swiglu"), "importing nowhere failed: ModuleNotFoundError"),
        (("right", "--op", "swiglu"), "expected MODULE:NAME"),
        (
            ("kernels_on_trial:two_arguments", "--op", "rms_norm"),
            "it takes (hidden_states, weight), and rms_norm is called as rms_norm(hidden_states, "
            "weight, eps): too many positional arguments",
        ),
        (
            ("kernels_on_trial:right", "--op", "rms_norm", "--workloads", "/nowhere"),
            "there are no workloads",
        ),
        (
            ("kernels_on_trial:right", "--op", "rms_norm", "--report", "/dev/null"),
            "is a file, expected a folder",
        ),
    ],
)
def test_what_cannot_be_tried_is_one_line_and_status_2(parity, asked, message):
    result = parity("kernel", *asked)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_workloads_are_written_and_a_kernel_is_judged_on_them(parity, tmp_path):
    written = parity("workloads", "--op", "rms_norm", "--dtype", "float32", "--out", tmp_path)
    assert written.exit_code == 0
    assert len(list(tmp_path.rglob("*.json"))) == len(list(tmp_path.rglob("*.jsonl"))) > 5
    asked = ("--op", "rms_norm", "--workloads", tmp_path, "--no-time", "--json")
    result = parity("kernel", "kernels_on_trial:right", *asked)
    assert result.exit_code == 0
    lines = json.loads(result.stdout)["ops"][0]["workloads"]
    assert {line["layout"] for line in lines} == {"contiguous"}
