"""apps/run_prompt.py, driven as a person drives it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from augur_gen import Generation
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_tok import Tokenizer
from program_run import APPS, COMPUTING, run_in_process, run_program

JSON_KEYS = {
    "model",
    "device",
    "dtype",
    "attention",
    "prompt_token_ids",
    "num_reused_tokens",
    "token_ids",
    "text",
    "finish_reason",
    "stop_string",
    "sampling",
    "logprobs",
    "load_s",
    "ttft_s",
    "prefill_s",
    "prefill_tokens_per_s",
    "decode_s",
    "decode_tokens_per_s",
    "weight_bytes",
    "cache_bytes",
    "peak_memory_bytes",
}


def answer(folder: Path, *arguments: str, stdin: str | None = None) -> dict:
    asked = (*COMPUTING, *arguments, "--model", folder, "--json")
    done = run_in_process("run_prompt.py", *asked, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_stdout_is_the_text_and_nothing_else(tiny_folder: Path):
    arguments = ("Why is the sky blue?", "--model", tiny_folder, "--max-new-tokens", "12")
    streamed = run_program("run_prompt.py", *arguments, *COMPUTING)
    assert streamed.returncode == 0, streamed.stderr
    figures = answer(tiny_folder, "Why is the sky blue?", "--max-new-tokens", "12")
    assert streamed.stdout == figures["text"] != ""
    for said in ("cpu", "float32", "eager", "first token", "tokens/s", "finish: length"):
        assert said in streamed.stderr


def test_json_is_one_object_with_every_figure(tiny_folder: Path):
    figures = answer(tiny_folder, "Why?", "--max-new-tokens", "5", "--attention", "sdpa")
    assert set(figures) == JSON_KEYS
    assert len(figures["token_ids"]) == 5
    assert figures["finish_reason"] == "length"
    assert (figures["device"], figures["attention"]) == ("cpu", "sdpa")
    tokenizer = Tokenizer.from_folder(tiny_folder)
    assert figures["text"] == tokenizer.decode(figures["token_ids"], skip_special_tokens=True)
    # Loading, the first token and decoding are three figures, none hidden in another.
    assert figures["load_s"] > 0
    assert figures["ttft_s"] >= figures["prefill_s"] > 0
    assert figures["decode_tokens_per_s"] == pytest.approx(4 / figures["decode_s"])
    prompt_length = len(figures["prompt_token_ids"])
    assert figures["prefill_tokens_per_s"] == pytest.approx(prompt_length / figures["prefill_s"])
    assert figures["peak_memory_bytes"] > 50_000_000  # torch alone takes more


def test_the_chat_template_wraps_the_prompt_and_raw_adds_nothing(tiny_folder: Path):
    tokenizer = Tokenizer.from_folder(tiny_folder)
    one = ("--max-new-tokens", "1")
    chat = answer(tiny_folder, "blue", "--system", "Be brief.", *one)
    assert tokenizer.decode(chat["prompt_token_ids"]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nblue<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    raw = answer(tiny_folder, "blue", "--raw", *one)
    assert raw["prompt_token_ids"] == tokenizer.encode("blue")


def test_a_base_model_is_not_wrapped_in_a_chat(tmp_path: Path):
    folder = write_tiny_checkpoint(tmp_path / "base", chat_template=None)
    typed = "blue<|im_end|>"
    figures = answer(folder, typed, "--max-new-tokens", "1")
    tokenizer = Tokenizer.from_folder(folder)
    assert figures["prompt_token_ids"] == tokenizer.encode(typed)
    raw = answer(folder, typed, "--raw", "--max-new-tokens", "1")
    assert raw["prompt_token_ids"] == [*tokenizer.encode("blue"), tokenizer.token_id("<|im_end|>")]


def test_a_system_message_without_a_chat_template_is_refused(tmp_path: Path):
    folder = write_tiny_checkpoint(tmp_path / "base", chat_template=None)
    done = run_in_process("run_prompt.py", "blue", "--system", "Be brief.", "--model", folder)
    assert done.returncode == 2
    assert "the checkpoint has none" in done.stderr


@pytest.mark.parametrize("wrong", [5.0, "5", [[1]], ["a"], {}, True, -1, 99_999], ids=repr)
def test_eos_ids_that_are_no_ids_are_refused(tmp_path: Path, wrong: object):
    folder = write_tiny_checkpoint(tmp_path / "wrong")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": wrong}))
    done = run_in_process("run_prompt.py", "blue", "--model", folder)
    assert done.returncode == 2
    assert f"generation_config.json: eos_token_id is {wrong!r}" in done.stderr


def test_without_eos_ids_of_its_own_the_generation_config_leaves_it_to_the_config(tmp_path: Path):
    folder = write_tiny_checkpoint(tmp_path / "config")
    first = answer(folder, "blue", "--raw", "--max-new-tokens", "1")["token_ids"]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": []}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": first[0]}))
    assert answer(folder, "blue", "--raw", "--max-new-tokens", "3")["finish_reason"] == "eos"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_dtype_asked_for_is_the_one_used(tiny_folder: Path, dtype: str):
    figures = answer(tiny_folder, "blue", "--max-new-tokens", "2", "--dtype", dtype)
    assert figures["dtype"] == dtype
    assert len(figures["token_ids"]) == 2


SHELL = {
    "a reader that leaves": ('| head -c 3 >/dev/null; exit "${PIPESTATUS[0]}"', "", 1),
    "a full disk": (">/dev/full", "No space left on device", 1),
    "a closed stdout": (">&-", "stdout is closed", 1),
}


@pytest.mark.gate
@pytest.mark.parametrize("name", SHELL)
def test_a_stdout_that_takes_nothing_ends_without_a_traceback(tiny_folder: Path, name: str):
    redirection, said, status = SHELL[name]
    command = f"{sys.executable} {APPS}/run_prompt.py Why? --model {tiny_folder} --device cpu"
    done = subprocess.run(
        ["bash", "-c", f"{command} {redirection}"], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == status
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_the_prompt_may_come_from_stdin(tiny_folder: Path, arguments: tuple[str, ...]):
    one = ("--max-new-tokens", "1")
    piped = answer(tiny_folder, *arguments, *one, stdin="the sky\n")
    typed = answer(tiny_folder, "the sky", *one)
    assert piped["prompt_token_ids"] == typed["prompt_token_ids"]


STDIN = {
    "a mark of UTF-8 and the line end of Windows": (b"\xef\xbb\xbfthe sky\r\n", "the sky"),
    "one line end of two": (b"the sky\n\n", "the sky\n"),
    "one line end of two of Windows": (b"the sky\r\n\r\n", "the sky\r\n"),
    "no line end": (b"the sky", "the sky"),
    "returns that end no line": (b"the\rsky\r", "the\rsky\r"),
    "a mark that is not at the start": ("the\ufeff sky\n".encode(), "the\ufeff sky"),
}


@pytest.mark.parametrize("name", STDIN)
def test_only_a_mark_of_utf8_and_one_line_end_are_not_the_prompts(tiny_folder: Path, name: str):
    piped, prompt = STDIN[name]
    asked = ("--raw", "--json", "--max-new-tokens", "1", "--device", "cpu", "--model", tiny_folder)
    done = run_in_process("run_prompt.py", *asked, stdin=piped)
    assert done.returncode == 0, done.stderr
    tokenizer = Tokenizer.from_folder(tiny_folder)
    assert json.loads(done.stdout)["prompt_token_ids"] == tokenizer.encode(prompt)


def test_eos_ends_the_text(tmp_path: Path):
    folder = write_tiny_checkpoint(tmp_path / "ends")
    first = answer(folder, "blue", "--raw", "--max-new-tokens", "3")["token_ids"]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, first[0]]}))
    figures = answer(folder, "blue", "--raw", "--max-new-tokens", "3")
    assert (figures["token_ids"], figures["finish_reason"]) == (first[:1], "eos")


def test_penalties_of_the_generation_config_do_not_touch_greedy_decoding(tmp_path: Path):
    folder = write_tiny_checkpoint(tmp_path / "penalty")
    asked = ("blue light blue light", "--raw", "--max-new-tokens", "12")
    plain = answer(folder, *asked)["token_ids"]
    (folder / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1.5}))
    assert answer(folder, *asked)["token_ids"] == plain


@pytest.mark.gate
def test_ctrl_c_ends_cleanly_with_what_was_generated(tmp_path: Path):
    # Deep enough to take seconds, so that the interrupt comes before the end.
    folder = write_tiny_checkpoint(tmp_path / "deep", num_hidden_layers=48)
    asked = ["Why?", "--raw", "--model", folder, "--max-new-tokens", "500", "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, APPS / "run_prompt.py", *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = process.stdout.read(1)  # the text has begun
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert b"finish: interrupted" in said
    new_tokens = int(re.search(rb"decode (\d+) tokens", said).group(1))
    assert 0 < new_tokens < 500
    assert first + rest


def test_ctrl_c_with_json_prints_the_object_with_what_was_generated(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    make_token = Generation.__next__

    def interrupted_at_the_fourth(generation: Generation) -> int:
        if len(generation.result().token_ids) == 3:
            raise KeyboardInterrupt
        return make_token(generation)

    monkeypatch.setattr(Generation, "__next__", interrupted_at_the_fourth)
    done = run_in_process("run_prompt.py", "Why?", "--model", tiny_folder, "--json")
    assert done.returncode == 130
    figures = json.loads(done.stdout)
    assert figures["finish_reason"] == "interrupted"
    assert len(figures["token_ids"]) == 3


WRONG = {
    "no such folder": (["Why?", "--model", "./nowhere"], "nowhere"),
    "no such device": (["Why?", "--device", "cuda:99"], "cuda:99"),
    "not a device": (["Why?", "--device", "toaster"], "toaster"),
    "no such dtype": (["Why?", "--dtype", "int8"], "int8"),
    "no such attention": (["Why?", "--attention", "flash"], "flash"),
    "no tokens asked for": (["Why?", "--max-new-tokens", "0"], "max-new-tokens"),
    "more than the positions": (["Why?", "--max-new-tokens", "513"], "512 positions"),
    "system without a chat": (["Why?", "--raw", "--system", "x"], "system message"),
    "empty prompt": (["", "--raw"], "no tokens"),
    "unknown option": (["Why?", "--beams", "2"], "--beams"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_message_and_status_2(tiny_folder: Path, name: str):
    arguments, said = WRONG[name]
    if "--model" not in arguments:
        arguments = [*arguments, "--model", str(tiny_folder)]
    done = run_in_process("run_prompt.py", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_prompt_that_is_not_utf8_is_refused(tiny_folder: Path):
    done = run_in_process("run_prompt.py", "--model", tiny_folder, stdin=b"caf\xe9")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr


@pytest.mark.parametrize("program", ["run_prompt.py", "download_weights.py"])
def test_help_names_every_option(program: str):
    done = run_program(program, "--help", COLUMNS="200")
    assert done.returncode == 0
    options = {
        "run_prompt.py": [
            "--model",
            "--max-new-tokens",
            "--raw",
            "--system",
            "--thinking",
            "--no-thinking",
            "--device",
            "--dtype",
            "--attention",
            "--prefill-chunk",
            "--json",
            "--n",
            "--temperature",
            "--top-k",
            "--top-p",
            "--min-p",
            "--repetition-penalty",
            "--presence-penalty",
            "--frequency-penalty",
            "--logit-bias",
            "--seed",
            "--logprobs",
            "--stop",
            "--stop-token-id",
            "--min-new-tokens",
            "--max-time",
            "--use-generation-config",
            "--input",
            "--output",
            "--max-running",
            "--batch-tokens",
            "--cache-memory",
        ],
        "download_weights.py": ["MODEL", "--plan", "--context", "--json"],
    }
    for option in options[program]:
        assert option in done.stdout
