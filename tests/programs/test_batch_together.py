"""apps/run_prompt.py --input: prompts that are answered together, whatever is ready first."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from augur.batch.answers import AnswerWriter
from program_run import COMPUTING, run_in_process

SAMPLED = ("--temperature", "1", "--max-new-tokens", "6", "--system", "The sky is blue. Why?")
# Of unequal lengths, so that the first is the last to be ready.
LINES = [
    {"id": f"p{number}", "prompt": "blue " * (number % 5 + 1), "max_new_tokens": length}
    for number, length in enumerate((40, 3, 17, 1, 9, 25, 2, 8, 30, 5, 12, 4))
]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def batch(folder: Path, prompts: Path, answers: Path, *more: str):
    files = ("--input", prompts, "--output", answers, "--model", folder)
    return run_in_process("run_prompt.py", *files, *COMPUTING, *SAMPLED, *more)


def ids(path: Path) -> list[Any]:
    return [json.loads(line)["id"] for line in path.read_bytes().splitlines()]


@pytest.fixture
def one_by_one(tiny_folder: Path, prompts: Path, tmp_path: Path) -> bytes:
    path = tmp_path / "one by one.jsonl"
    assert batch(tiny_folder, prompts, path, "--max-running", "1").returncode == 0
    assert ids(path) == [line["id"] for line in LINES]
    return path.read_bytes()


COMPANIES = {
    "as it comes": (),
    "two": ("--max-running", "2"),
    "many": ("--max-running", "100"),
    "small steps": ("--max-running", "3", "--batch-tokens", "4"),
    "hardly any room": ("--cache-memory", "24KB"),  # 5 blocks
}


@pytest.mark.parametrize(
    "name",
    [
        "as it comes",
        *(pytest.param(one, marks=pytest.mark.gate) for one in COMPANIES if one != "as it comes"),
    ],
)
def test_the_file_is_that_of_one_prompt_at_a_time(
    tiny_folder: Path, prompts: Path, answers: Path, one_by_one: bytes, name: str
):
    done = batch(tiny_folder, prompts, answers, *COMPANIES[name])
    assert done.returncode == 0, done.stderr
    assert answers.read_bytes() == one_by_one


@pytest.mark.parametrize(
    "num_written", [5, *(pytest.param(one, marks=pytest.mark.gate) for one in (0, 1, 11))]
)
def test_answers_are_written_as_they_are_ready_and_none_is_made_again(
    tiny_folder: Path,
    prompts: Path,
    answers: Path,
    one_by_one: bytes,
    num_written: int,
    monkeypatch: pytest.MonkeyPatch,
):
    write = AnswerWriter.write
    written: list[str] = []

    def counted(writer: AnswerWriter, answer: dict[str, Any]) -> None:
        if len(written) == num_written:
            raise KeyboardInterrupt
        write(writer, answer)
        written.append(answer["id"])

    with monkeypatch.context() as patch:
        patch.setattr(AnswerWriter, "write", counted)
        assert batch(tiny_folder, prompts, answers).returncode == 130
    assert ids(answers) == written
    assert "p0" not in written, "the longest is ready last"
    assert set(answers.read_bytes().splitlines()) <= set(one_by_one.splitlines())
    num_written = len(LINES)
    with monkeypatch.context() as patch:
        patch.setattr(AnswerWriter, "write", counted)
        done = batch(tiny_folder, prompts, answers, "--max-running", "3")
    assert done.returncode == 0, done.stderr
    assert sorted(written) == sorted(line["id"] for line in LINES), "each once"
    assert answers.read_bytes() == one_by_one


def test_a_file_that_was_complete_and_not_in_order_yet_is_put_into_it(
    tiny_folder: Path,
    prompts: Path,
    answers: Path,
    one_by_one: bytes,
    monkeypatch: pytest.MonkeyPatch,
):
    answers.write_bytes(b"".join(one_by_one.splitlines(keepends=True)[::-1]))
    answers.chmod(0o640)
    link = answers.with_name("link.jsonl")
    link.symlink_to(answers)
    monkeypatch.setattr("augur.batch.job.load", None)
    done = batch(tiny_folder, prompts, link)
    assert done.returncode == 0
    assert "it is complete, nothing was done" in done.stderr
    assert answers.read_bytes() == one_by_one
    assert link.is_symlink()
    assert answers.stat().st_mode & 0o777 == 0o640
    assert not list(answers.parent.glob(".*"))


def test_a_disk_that_is_full_when_they_are_put_in_order_loses_none(
    tiny_folder: Path,
    prompts: Path,
    answers: Path,
    one_by_one: bytes,
    monkeypatch: pytest.MonkeyPatch,
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        patch.setattr("augur_apps.console._drop_stdout", lambda: None)  # it is the test's own
        done = batch(tiny_folder, prompts, answers)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert sorted(answers.read_bytes().splitlines()) == sorted(one_by_one.splitlines())
    assert not list(answers.parent.glob(".*"))
    assert batch(tiny_folder, prompts, answers).returncode == 0
    assert answers.read_bytes() == one_by_one


def test_one_bad_line_does_not_stop_the_others(
    tiny_folder: Path, prompts: Path, answers: Path, one_by_one: bytes
):
    bad = {"id": "long", "prompt": "blue " * 600}, {"id": "surrogate", "prompt": "\ud800"}
    first, *rest = prompts.read_text().splitlines(keepends=True)
    prompts.write_text(first + "".join(json.dumps(line) + "\n" for line in bad) + "".join(rest))
    done = batch(tiny_folder, prompts, answers)
    assert done.returncode == 1
    assert "2 of 14 prompts could not be answered" in done.stderr
    found = answers.read_bytes().splitlines(keepends=True)
    assert ["error" in json.loads(line) for line in found] == [False, True, True, *[False] * 11]
    assert b"".join(found[:1] + found[3:]) == one_by_one


def test_rate_company_blocks_and_reuse_are_told(tiny_folder: Path, prompts: Path, answers: Path):
    done = batch(tiny_folder, prompts, answers, "--max-running", "4")
    said = " ".join(done.stderr.split())
    num_tokens = sum(len(json.loads(line)["token_ids"]) for line in answers.open("rb"))
    assert f"{num_tokens} tokens in " in said
    assert re.search(r"\d tokens/s \| reused \d+ of \d+ prompt tokens \| cache .* in \d+ b", said)
    # The system message is everybody's.
    reused, of = map(int, re.search(r"reused (\d+) of (\d+)", said).groups())
    assert 0 < reused < of
    assert of == sum(json.loads(line)["num_prompt_tokens"] for line in answers.open("rb"))


def test_while_it_goes_on_its_rate_company_and_blocks_are_shown(
    tiny_folder: Path, prompts: Path, answers: Path, monkeypatch: pytest.MonkeyPatch
):
    shown: list[str] = []
    monkeypatch.setattr("augur_apps.console.ProgressBars.tell", lambda *said: shown.append(said[2]))
    assert batch(tiny_folder, prompts, answers, "--max-running", "4").returncode == 0
    form = re.compile(r"\d+\.\d tokens/s, (\d+) running, (\d+) waiting, (\d+) of (\d+) blocks")
    counts = [tuple(map(int, form.fullmatch(words).groups())) for words in shown]
    assert max(running for running, *_ in counts) == 4
    assert max(waiting for _, waiting, *_ in counts) == 8
    assert counts[-1][:3] == (0, 0, 0)
    assert all(in_use <= total for *_, in_use, total in counts)
