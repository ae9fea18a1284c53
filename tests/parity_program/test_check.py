"""`check` passes where augur is right to the bit, and fails, saying where, for anything else."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def corrupt(truth: Path, into: Path, change) -> Path:
    """A copy of a ground-truth file after `change(prompts, logits)`."""
    with safe_open(truth, framework="pt") as handle:
        metadata = handle.metadata()
    prompts, tensors = json.loads(metadata["prompts"]), load_file(truth)
    change(prompts, tensors["first_token_logits"])
    save_file(tensors, into, metadata={**metadata, "prompts": json.dumps(prompts)})
    return into


def test_what_is_recorded_is_checked_with_difference_0(parity, truth_file):
    result = parity("check", "--truth", truth_file, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["held"]
    assert found["demand"]["logits"] == "0 (equal to the bit)"
    for prompt in found["prompts"]:
        assert prompt["largest_logit_difference"] == prompt["kl_nats"] == 0
        assert prompt["same_ids"]
        assert prompt["num_same_tokens"] == prompt["num_tokens"] == 8


def test_beside_transformers_the_logits_of_every_step_are_checked(parity, checkpoint, prompts_file):
    result = parity(
        "check", "--model", checkpoint, "--prompts", prompts_file, "--max-new-tokens", 5, "--json"
    )
    assert result.exit_code == 0, result.output
    prompts = json.loads(result.stdout)["prompts"]
    assert [prompt["num_logit_rows"] for prompt in prompts] == [5, 5, 5]
    assert {prompt["num_differing_logits"] for prompt in prompts} == {0}


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.gate)])
def test_narrow_dtypes_are_equal_to_the_bit_too(parity, checkpoint, prompts_file, dtype):
    arguments = ("--model", checkpoint, "--prompts", prompts_file, "--max-new-tokens", 3)
    result = parity("check", *arguments, "--dtype", dtype, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["demand"]["logits"] == "0 (equal to the bit)"


@pytest.mark.parametrize("width", [80, 100])
def test_no_figure_of_the_table_is_cut_off(parity, truth_file, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for arguments in (("--ops", "wrong_ops:RIGHT"), ("--dtype", "bfloat16")):
        result = parity("check", "--truth", truth_file, *arguments)
        rows = [line for line in result.stdout.splitlines() if "/8 " in line]
        assert len(rows) == 3
        for row in rows:
            assert len(row.rstrip()) <= width
            assert row.count("…") <= 1  # the prompt's


def test_the_table_reads_well_in_a_hundred_columns(parity, truth_file):
    result = parity("check", "--truth", truth_file)
    assert "all 3 prompts held" in result.stdout
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()[4:]) <= 100
    row = next(line for line in result.stdout.splitlines() if "Why is the sky blue?" in line)
    assert " ".join(row.split()) == "1 Why is the sky blue? same 8/8 0 0 0 1 ok"


def test_one_changed_input_id_fails_and_is_named(parity, truth_file, tmp_path):
    def change(prompts, _logits):
        prompts[1]["input_ids"][4] += 1

    result = parity("check", "--truth", corrupt(truth_file, tmp_path / "truth", change))
    assert result.exit_code == 1
    assert "prompt 2\n  input ids part at 4 (of " in result.stdout
    assert "1 of 3 prompts failed" in result.stdout


def test_one_changed_token_fails_and_is_named_with_what_stands_around_it(
    parity, truth_file, tmp_path
):
    def change(prompts, _logits):
        prompts[2]["generated_ids"][5] = 7

    result = parity("check", "--truth", corrupt(truth_file, tmp_path / "truth", change))
    assert result.exit_code == 1
    assert "prompt 3\n  new tokens part at 5 (of 8), after '" in result.stdout
    assert "reference  '(' (id 7), then '" in result.stdout


def test_one_logit_moved_by_one_ulp_fails_and_is_named(parity, truth_file, tmp_path):
    def change(_prompts, logits):
        logits[0, 123] = torch.nextafter(logits[0, 123], torch.tensor(torch.inf))

    corrupted = corrupt(truth_file, tmp_path / "truth", change)
    result = parity("check", "--truth", corrupted)
    assert result.exit_code == 1
    assert "1 of 303 logits differ, most that of id 123 " in result.stdout
    assert "(1 ULP)" in result.stdout
    assert "prompt 2\n" not in result.stdout
    assert parity("check", "--truth", corrupted, "--tolerance", "1e-5").exit_code == 0


def test_another_attention_and_another_dtype_are_held_to_a_tolerance_that_is_said(
    parity, truth_file
):
    fused = parity("check", "--truth", truth_file, "--attention", "sdpa")
    assert fused.exit_code == 0, fused.output
    assert "logits within 0.0001 + 0.0001 of the value, for sdpa against eager" in fused.stdout
    narrow = parity("check", "--truth", truth_file, "--dtype", "bfloat16")
    assert "within 0.01 + 3% of the peak, for bfloat16 against float32" in narrow.stdout
    assert "tokens may part where two logits are closer than that" in narrow.stdout


def test_a_right_kernel_passes_within_the_tolerance_and_not_to_the_bit(parity, truth_file):
    arguments = ("check", "--truth", truth_file, "--ops", "wrong_ops:RIGHT")
    assert parity(*arguments).exit_code == 0
    assert parity(*arguments, "--tolerance", 0).exit_code == 1


def test_a_wrong_kernel_fails(parity, truth_file):
    result = parity("check", "--truth", truth_file, "--ops", "wrong_ops:TILED_HEADS", "--json")
    assert result.exit_code == 1
    prompts = json.loads(result.stdout)["prompts"]
    assert all(prompt["same_ids"] and not prompt["held"] for prompt in prompts)


@pytest.mark.gate
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_op_is_judged_on_the_models_own_inputs_beyond_any_prompts_length(
    parity, checkpoint, tmp_path, dtype
):
    prompts = tmp_path / "prompts.json"
    # Each shorter than what the kernel gets wrong.
    prompts.write_text(json.dumps(["Why?", "Wherefore?", "How so?"]), encoding="utf-8")
    asked = ("check", "--model", checkpoint, "--prompts", prompts, "--dtype", dtype)
    asked += ("--max-new-tokens", 3, "--ops")
    right = parity(*asked, "kernels_on_trial:RIGHT_NORM")
    assert right.exit_code == 0, right.stdout
    assert "op rms_norm on the model's own inputs: held" in right.stdout
    assert ("of the reference's own error" in right.stdout) == (dtype != "float32")
    wrong = parity(*asked, "kernels_on_trial:WRONG_NORM")
    assert wrong.exit_code == 1
    assert "op rms_norm on the model's own inputs: FAILED: " in wrong.stdout
    assert "; row 64 and on" in wrong.stdout
    told = json.loads(parity(*asked, "kernels_on_trial:WRONG_NORM", "--json").stdout)
    assert [(one["op"], one["held"]) for one in told["ops"]] == [("rms_norm", False)]


def test_a_changed_weight_fails(parity, truth_file, changed):
    assert parity("check", "--truth", truth_file, "--model", changed).exit_code == 1


def test_fewer_tokens_can_be_checked_than_were_recorded(parity, truth_file):
    result = parity("check", "--truth", truth_file, "--max-new-tokens", 2, "--json")
    assert [one["num_tokens"] for one in json.loads(result.stdout)["prompts"]] == [2, 2, 2]


def test_another_machines_setting_is_noted(parity, truth_file, tmp_path):
    with safe_open(truth_file, framework="pt") as handle:
        metadata = handle.metadata()
    made_with = json.dumps(json.loads(metadata["made_with"]) | {"num_threads": 96})
    elsewhere = tmp_path / "truth"
    save_file(load_file(truth_file), elsewhere, metadata={**metadata, "made_with": made_with})
    result = parity("check", "--truth", elsewhere)
    assert f"threads 96, then {torch.get_num_threads()}: may change the last bits" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--truth", "nowhere"), "there is no such file"),
        (("--model", "./nowhere"), "there is no such folder"),
        (("--prompts", "nowhere"), "cannot be read"),
        (("--ops", "nowhere:TABLE"), "importing nowhere failed"),
        (("--device", "abacus"), "this machine has"),
    ],
)
def test_wrong_input_is_one_message_and_status_2(parity, arguments, message):
    result = parity("check", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_prompts_that_are_no_list_of_texts_are_refused(parity, checkpoint, tmp_path):
    for content in ("{}", "[]", "[1]", '[""]', "[", '["\\ud800'):
        path = tmp_path / "prompts.json"
        path.write_text(content, encoding="utf-8")
        result = parity("check", "--model", checkpoint, "--prompts", path)
        assert result.exit_code == 2
        assert f"error: {path}: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--truth", "a", "--prompts", "b"), ("--ops", "a:B", "--attention", "sdpa")],
)
def test_options_that_exclude_each_other_are_refused(parity, arguments):
    result = parity("check", *arguments)
    assert result.exit_code == 2
    assert "leave out" in result.stderr


def test_a_truth_of_another_model_is_refused(parity, truth_file, checkpoint, tmp_path):
    def change(prompts, _logits):
        prompts[0]["input_ids"][0] = 5000

    corrupted = corrupt(truth_file, tmp_path / "truth", change)
    result = parity("check", "--truth", corrupted, "--model", checkpoint)
    assert result.exit_code == 2
    assert "5000" in result.stderr


def test_a_truth_file_holds_what_it_was_made_with(truth_file, checkpoint):
    with safe_open(truth_file, framework="pt") as handle:
        made_with = json.loads(handle.metadata()["made_with"])
    assert (made_with["engine"], made_with["model"]) == ("transformers", str(checkpoint))
    assert made_with["versions"]["torch"] == torch.__version__
    assert made_with["max_new_tokens"] == 8


def test_what_augur_does_not_support_is_refused_before_the_referee_runs(
    parity, checkpoint, tmp_path
):
    folder = shutil.copytree(checkpoint, tmp_path / "quantised")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": "gptq"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    result = parity("check", "--model", folder)
    assert result.exit_code == 2
    assert "gptq" in result.stderr
    assert "transformers" not in result.stderr
