"""Where apps/run_prompt.py --output may write, told before any model is looked for."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from augur.batch.prompts import read_prompts
from program_run import run_in_process

NOBODY = 65534


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All is imported that a refused run needs: nobody may not look into everybody's Python."""
    path = tmp_path_factory.mktemp("imported")
    with pytest.raises(AssertionError):
        refused(write_prompts(path), path / "o.jsonl")


@pytest.fixture
def folder(imported: None) -> Iterator[Path]:  # noqa: ARG001
    """An empty folder, for a person whom permissions bind: root, if that is us, becomes nobody."""
    path = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(path, NOBODY, -1)
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        if is_root:
            os.seteuid(0)
        for found in (path, *path.rglob("*")):
            found.chmod(0o700)
        shutil.rmtree(path)


def write_prompts(folder: Path, **line: int) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "blue"} | line) + "\n")
    return path


def refused(prompts: Path, answers: Path, *arguments: str) -> str:
    """What is said of a batch whose model, if it came to that, would not be found either."""
    files = ("--input", prompts, "--output", answers, "--model", "./nowhere", "--device", "cpu")
    before = sorted(prompts.parent.rglob("*"))
    done = run_in_process("run_prompt.py", *files, *arguments)
    assert done.returncode == 2, done.stderr
    assert sorted(prompts.parent.rglob("*")) == before, "nothing is left behind"
    assert "nowhere" not in done.stderr
    assert done.stderr.count("error:") == 1
    return " ".join(done.stderr.split())


def closed(path: Path, mode: int) -> Path:
    path.chmod(mode)
    return path


def test_a_folder_that_may_not_be_written_in(folder: Path):
    inner = folder / "inner"
    inner.mkdir()
    old = inner / "old.jsonl"
    old.touch()
    closed(inner, 0o500)
    for answers in (inner / "o.jsonl", old):
        said = refused(write_prompts(folder), answers)
        assert f"{inner}/.{answers.name}.lock, which keeps other runs from it, cannot be" in said
        assert "Permission denied. Give another output, or allow yourself" in said


def test_a_folder_that_may_not_be_looked_into(folder: Path):
    inner = folder / "inner"
    inner.mkdir()
    closed(inner, 0o600)
    assert "cannot be used: Permission denied. Give another" in refused(
        write_prompts(folder), inner / "o.jsonl"
    )


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o200])
def test_a_file_that_may_not_be_read_and_written(folder: Path, mode: int):
    answers = folder / "o.jsonl"
    answers.touch()
    closed(answers, mode)
    assert "cannot be used: Permission denied. Give another" in refused(
        write_prompts(folder), answers
    )


def test_a_lock_that_is_another_users(folder: Path):
    lock = folder / ".o.jsonl.lock"
    lock.touch()
    closed(lock, 0o000)
    said = refused(write_prompts(folder), folder / "o.jsonl")
    assert f"{lock}, which keeps other runs from it, cannot be made or opened: Permission" in said


@pytest.mark.parametrize("length", [250, 252, 256])
def test_a_name_too_long_for_the_file_or_its_lock(tmp_path: Path, length: int):
    said = refused(write_prompts(tmp_path), tmp_path / ("o" * length))
    assert "File name too long. Give another output with a shorter name" in said


def test_what_is_no_regular_file(tmp_path: Path):
    prompts = write_prompts(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "round").symlink_to("round")
    for answers in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        assert f"{answers}: not a regular file. Give another" in refused(prompts, answers)
    assert "Too many levels of symbolic links" in refused(prompts, tmp_path / "round")
    assert "there is no folder" in refused(prompts, prompts / "o.jsonl")
    assert not Path("/dev/.null.lock").exists()


def test_what_holds_something_else(tmp_path: Path):
    answers = tmp_path / "o.jsonl"
    answers.write_text("my notes\n")
    assert f"{answers}:1: not an answer of this" in refused(write_prompts(tmp_path), answers)
    assert answers.read_text() == "my notes\n"


def test_answers_made_with_other_settings_or_of_other_prompts(tmp_path: Path):
    prompts, answers = write_prompts(tmp_path), tmp_path / "o.jsonl"
    answer = {"format": "augur-answer/1", "id": 1, "prompt_sha256": "", "made_with": {"raw": False}}
    answers.write_text(json.dumps(answer) + "\n")
    assert "line 1 of the input asks something else" in refused(prompts, answers)
    answer["prompt_sha256"] = read_prompts(prompts)[0].sha256
    answers.write_text(json.dumps(answer) + "\n")
    assert "raw was false and is true" in refused(prompts, answers, "--raw")


def test_a_line_that_does_not_go_with_the_options(tmp_path: Path):
    prompts = write_prompts(tmp_path, seed=1)
    said = refused(prompts, tmp_path / "o.jsonl")
    assert f"{prompts}:1: it has a seed, and without a temperature" in said


def test_a_model_that_is_not_found_leaves_nothing_behind(tmp_path: Path):
    prompts = write_prompts(tmp_path)
    files = ("--input", prompts, "--output", tmp_path / "o.jsonl", "--model", "./nowhere")
    done = run_in_process("run_prompt.py", *files)
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert list(tmp_path.iterdir()) == [prompts]
