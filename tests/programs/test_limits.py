"""What a person may ask for and cannot have: one message, nothing allocated for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from augur_apps import run_prompt
from augur_apps.console import clear_errors
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_tok import Tokenizer
from program_run import APPS, run_in_process

# More positions, in 512 characters or less, than the tiny checkpoint has.
LONG_PROMPT = "1 2 3 4 5 6 7 8 9 0 " * 60
CONTROL_TOKENS = "<|im_end|><|im_start|><|endoftext|>"


def refused(*arguments: str | Path, stdin: str | None = None) -> str:
    """What run_prompt says of wrong input: one message, nothing on stdout."""
    done = run_in_process("run_prompt.py", *arguments, stdin=stdin)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    return done.stderr


def test_a_prompt_longer_than_the_models_positions_is_refused(tiny_folder: Path) -> None:
    said = refused(LONG_PROMPT, "--model", tiny_folder, "--max-new-tokens", "1")
    assert "512 positions" in said


def test_a_prompt_that_leaves_no_room_for_the_new_tokens_is_refused(tiny_folder: Path) -> None:
    arguments = ("blue", "--raw", "--model", tiny_folder, "--max-new-tokens")
    num_prompt = len(Tokenizer.from_folder(tiny_folder).encode("blue"))
    assert "512 positions" in refused(*arguments, str(512 - num_prompt + 1))


@pytest.mark.parametrize("count", ["0", "-1", "-1000000000000000000", "1.5", "many", ""])
def test_a_number_of_new_tokens_that_is_none_is_refused(tiny_folder: Path, count: str) -> None:
    assert "--max-new-tokens" in refused("Why?", "--model", tiny_folder, "--max-new-tokens", count)


@pytest.mark.parametrize("count", [10**6, 10**18, 10**30])
def test_an_absurd_number_of_new_tokens_is_refused_before_anything_is_allocated(
    tiny_folder: Path, count: int
) -> None:
    said = refused("Why?", "--model", tiny_folder, "--max-new-tokens", str(count))
    assert "512 positions" in said or "--max-new-tokens" in said


@pytest.mark.parametrize(
    "name", ["cuda:99", "cuda:-1", "cpu:3", "cpu:x", "mps:7", "meta", "toaster", "", "cpu,cuda"]
)
def test_a_device_that_this_machine_lacks_is_refused(tiny_folder: Path, name: str) -> None:
    said = refused("Why?", "--model", tiny_folder, "--device", name)
    assert f"--device is {name!r}" in said


def test_the_only_cpu_has_two_names(tiny_folder: Path) -> None:
    asked = ("Why?", "--model", tiny_folder, "--max-new-tokens", "2", "--device")
    one, other = (run_in_process("run_prompt.py", *asked, name) for name in ("cpu", "cpu:0"))
    assert (one.returncode, other.returncode) == (0, 0)
    assert one.stdout == other.stdout


def test_an_empty_prompt_is_refused_where_nothing_is_put_around_it(tiny_folder: Path) -> None:
    assert "no tokens" in refused("", "--raw", "--model", tiny_folder)
    chat = run_in_process("run_prompt.py", "", "--model", tiny_folder, "--max-new-tokens", "2")
    assert chat.returncode == 0, chat.stderr


@pytest.mark.parametrize("raw", [True, False])
def test_a_prompt_of_control_tokens_alone_is_answered(tiny_folder: Path, raw: bool) -> None:
    options = ["--raw"] if raw else []
    done = run_in_process(
        "run_prompt.py", CONTROL_TOKENS, *options, "--json", "--model", tiny_folder,
        "--max-new-tokens", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tokenizer = Tokenizer.from_folder(tiny_folder)
    control = set(tokenizer.special_tokens.values())
    token_ids = json.loads(done.stdout)["prompt_token_ids"]
    if raw:
        assert token_ids == tokenizer.encode(CONTROL_TOKENS, allow_special=True)
        assert set(token_ids) <= control
    else:
        # The template's own: the user's turn and the opening of the answer.
        assert sum(token_id in control for token_id in token_ids) == 3


@pytest.mark.gate
@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [("<&-", 2, "PROMPT"), ("</", 1, "directory")],
    ids=["closed", "a folder"],
)
def test_a_stdin_that_cannot_be_read_is_one_message(
    tiny_folder: Path, redirected: str, status: int, said: str
) -> None:
    command = f"{sys.executable} {APPS}/run_prompt.py --model {tiny_folder} --device cpu"
    done = subprocess.run(
        ["bash", "-c", f"{command} {redirected}"],
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    words = done.stderr.decode()
    assert done.returncode == status, words
    assert said in words
    assert "Traceback" not in words
    assert "internal error" not in words
    assert done.stdout == b""


def test_a_closed_stdout_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended, clear_errors():
        raise AssertionError("not reached")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: stdout is closed; there is nowhere to write to\n"


def test_bytes_on_the_command_line_that_are_no_text_are_refused(tiny_folder: Path) -> None:
    # As Python hands over the byte 0xE9, which is no UTF-8.
    assert "lone surrogate" in refused("caf\udce9", "--raw", "--model", tiny_folder)


def test_a_tokenizer_larger_than_the_model_is_refused_before_loading(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    num_tokens = Tokenizer.from_folder(folder).vocab_size
    write_tiny_checkpoint(tmp_path / "other", vocab_size=num_tokens - 1, eos_token_id=0)
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())
    said = refused("Why?", "--model", folder)
    assert f"the tokenizer knows {num_tokens} tokens, the model {num_tokens - 1}" in said


def test_a_billion_samples_are_begun_one_by_one(tiny_folder: Path) -> None:
    arguments = ("--model", tiny_folder, "--temperature", "1", "--n", str(10**30))
    assert "512 positions" in refused(LONG_PROMPT, *arguments)


def test_a_chunk_larger_than_any_prompt_is_the_whole_prompt(tiny_folder: Path) -> None:
    arguments = ("Why?", "--model", tiny_folder, "--max-new-tokens", "2", "--prefill-chunk")
    whole = run_in_process("run_prompt.py", *arguments, "1024")
    assert run_in_process("run_prompt.py", *arguments, str(10**30)).stdout == whole.stdout
    assert whole.returncode == 0


def test_stdin_without_an_end_is_refused(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_prompt, "_MAX_PROMPT_BYTES", 99)
    assert "more than 99 bytes" in refused("--model", tiny_folder, stdin="a" * 100)


def test_weights_that_are_not_finite_answer_nothing(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    assert "no token can be chosen" in refused("Why?", "--model", folder)
