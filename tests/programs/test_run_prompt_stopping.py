"""The options of apps/run_prompt.py that end the text."""

import json
from pathlib import Path
from typing import Any

import pytest

from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_tok import Tokenizer
from program_run import COMPUTING, run_in_process

# A text of plain letters: this model's own choices are mostly halves of characters.
DRAWN = ("--raw", "--temperature", "1", "--seed", "4")


def run(folder: Path, *arguments: str, prompt: str = "blue light"):
    asked = (prompt, "--model", folder, *COMPUTING, *arguments)
    return run_in_process("run_prompt.py", *asked)


def answer(folder: Path, *arguments: str) -> dict[str, Any]:
    done = run(folder, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def speaking_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose first greedy token is not an EOS."""
    return write_tiny_checkpoint(tmp_path_factory.mktemp("speaking") / "checkpoint")


@pytest.fixture(scope="module")
def whole(speaking_folder: Path) -> dict[str, Any]:
    """Letters alone: every other token is forbidden by a bias on these."""
    return answer(speaking_folder, "--max-new-tokens", "24", *DRAWN, *letters(speaking_folder))


def letters(folder: Path) -> list[str]:
    tokenizer = Tokenizer.from_folder(folder)
    ids = [tokenizer.token_id(letter) for letter in "abcd"]
    return [part for token_id in ids for part in ("--logit-bias", f"{token_id}=50")]


def test_a_stop_string_is_cut_off_wherever_the_tokens_are_cut(
    speaking_folder: Path, whole: dict[str, Any]
):
    text = whole["text"]
    assert set(text) == set("abcd")
    assert len(text) == 24
    stop = text[9:13]  # of four tokens, a letter each
    asked = ("--max-new-tokens", "24", *DRAWN, *letters(speaking_folder))
    stopped = answer(speaking_folder, *asked, "--stop", "nowhere", "--stop", stop)
    at = text.index(stop)
    assert stopped["text"] == text[:at]
    assert (stopped["finish_reason"], stopped["stop_string"]) == ("stop", stop)
    assert stopped["token_ids"] == whole["token_ids"][: at + 4]
    streamed = run(speaking_folder, *asked, "--stop", stop)
    assert streamed.stdout == text[:at]
    assert "finish: stop" in streamed.stderr


def test_what_only_began_like_a_stop_string_is_released_in_the_end(
    speaking_folder: Path, whole: dict[str, Any]
):
    asked = ("--max-new-tokens", "24", *DRAWN, *letters(speaking_folder))
    kept = answer(speaking_folder, *asked, "--stop", whole["text"][-3:] + "!")
    assert kept["text"] == whole["text"]
    assert (kept["finish_reason"], kept["stop_string"]) == ("length", None)


def test_a_stop_token_ends_the_text_as_its_last_token(speaking_folder: Path):
    greedy = answer(speaking_folder, "--max-new-tokens", "8")["token_ids"]
    last = next(token_id for token_id in greedy if token_id != greedy[0])
    stopped = answer(
        speaking_folder,
        "--max-new-tokens",
        "8",
        "--stop-token-id",
        "7",
        "--stop-token-id",
        str(last),
    )
    assert stopped["token_ids"] == greedy[: greedy.index(last) + 1]
    assert (stopped["finish_reason"], stopped["stop_string"]) == ("stop", None)


def test_no_stop_token_and_no_eos_comes_before_min_new_tokens(tmp_path: Path):
    folder = write_tiny_checkpoint(tmp_path / "ends")
    (first,) = answer(folder, "--max-new-tokens", "1")["token_ids"]
    for ending in ("eos", "stop"):
        eos = [first] if ending == "eos" else []
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [*eos, 1]}))
        stop = [] if eos else ["--stop-token-id", str(first)]
        at_once = answer(folder, *stop)
        assert (at_once["token_ids"], at_once["finish_reason"]) == ([first], ending)
        later = answer(folder, *stop, "--min-new-tokens", "4", "--max-new-tokens", "9")
        assert len(later["token_ids"]) >= 4
        assert first not in later["token_ids"][:4]


def test_a_limit_of_time_ends_the_text_after_at_least_one_token(speaking_folder: Path):
    late = answer(speaking_folder, "--max-new-tokens", "400", "--max-time", "0.000001")
    assert (len(late["token_ids"]), late["finish_reason"]) == (1, "time")
    in_time = answer(speaking_folder, "--max-new-tokens", "3", "--max-time", "600")
    assert (len(in_time["token_ids"]), in_time["finish_reason"]) == (3, "length")


WRONG = {
    ("--stop", ""): "--stop has ''",
    ("--stop", "caf\udce9"): "--stop has 'caf\\udce9', expected characters that UTF-8 has",
    ("--stop-token-id", "-1"): "--stop-token-id",
    ("--stop-token-id", "99999"): "--stop-token-id names token 99999; the model's vocabulary is 0",
    ("--min-new-tokens", "-1"): "--min-new-tokens is -1",
    (
        "--min-new-tokens",
        "300",
    ): "--min-new-tokens is 300, expected 0 to --max-new-tokens, which is",
    ("--max-time", "0"): "--max-time is 0",
    ("--max-time", "nan"): "--max-time is nan",
}


@pytest.mark.parametrize("given", WRONG)
def test_a_wrong_option_is_named_in_one_message_and_status_2(
    speaking_folder: Path, given: tuple[str, str]
):
    done = run(speaking_folder, *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert WRONG[given] in " ".join(done.stderr.split())


def test_stop_strings_of_a_generation_config_are_taken_when_asked_for(
    whole: dict[str, Any], tmp_path: Path
):
    folder = write_tiny_checkpoint(tmp_path / "stops")
    stop = whole["text"][9:13]
    settings = {"stop_strings": stop, "min_new_tokens": 2, "max_time": 600}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    asked = ("--max-new-tokens", "24", *DRAWN, *letters(folder))
    assert answer(folder, *asked)["text"] == whole["text"]
    stopped = answer(folder, *asked, "--use-generation-config", "--top-k", "999")
    assert stopped["text"] == whole["text"][: whole["text"].index(stop)]
