"""apps/run_prompt.py with several prompts, and with several samples of each."""

import json
from pathlib import Path
from typing import Any

import pytest

from augur.text_batch import TextBatch
from augur_gen import Scheduler
from program_run import COMPUTING, run_in_process

PROMPTS = ("Why is the sky blue? Because", "blue", "Why?")
DRAWN = ("--temperature", "1", "--seed", "7", "--max-new-tokens", "9")


def run(folder: Path, *arguments: str, stdin: str | None = None):
    asked = (*COMPUTING, "--model", folder, *arguments)
    return run_in_process("run_prompt.py", *asked, stdin=stdin)


def figures(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("company", [(), ("--max-running", "1"), ("--max-running", "2")])
def test_each_text_comes_in_its_turn_with_a_line_end(tiny_folder: Path, company: tuple[str, ...]):
    texts = [run(tiny_folder, prompt, "--max-new-tokens", "9").stdout for prompt in PROMPTS]
    done = run(tiny_folder, *PROMPTS, "--max-new-tokens", "9", *company)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"{text}\n" for text in texts)
    said = done.stderr
    places = [said.index(f"prompt {number} of 3\n") for number in (1, 2, 3)]
    assert places == sorted(places)
    assert "together: 27 tokens in " in said


def test_seeds_count_through_the_samples_of_each_prompt(tiny_folder: Path):
    found = figures(tiny_folder, *PROMPTS[:2], *DRAWN, "--n", "2")
    assert [one["sampling"]["seed"] for one in found] == [7, 8, 9, 10]
    for one, prompt in zip(found, (PROMPTS[0], PROMPTS[0], *[PROMPTS[1]] * 2), strict=True):
        seed = str(one["sampling"]["seed"])
        (alone,) = figures(tiny_folder, prompt, *DRAWN[:2], *DRAWN[4:], "--seed", seed)
        assert one["token_ids"] == alone["token_ids"]
        assert one["prompt_token_ids"] == alone["prompt_token_ids"]
    labels = run(tiny_folder, *PROMPTS[:2], *DRAWN, "--n", "2").stderr
    assert "prompt 1 of 2, sample 2 of 2\n" in labels


def test_samples_share_their_prompt_and_it_is_told(tiny_folder: Path):
    found = figures(tiny_folder, PROMPTS[0], *DRAWN, "--n", "3")
    shared = len(found[0]["prompt_token_ids"]) // 16 * 16
    assert shared > 0
    assert [one["num_reused_tokens"] for one in found] == [0, shared, shared]
    said = run(tiny_folder, PROMPTS[0], *DRAWN, "--n", "3").stderr
    assert f"reused {shared} of {len(found[0]['prompt_token_ids'])} prompt tokens" in said
    alone = figures(tiny_folder, PROMPTS[0], *DRAWN, "--n", "3", "--max-running", "1")
    assert [one["num_reused_tokens"] for one in alone] == [0, 0, 0]
    assert [one["token_ids"] for one in alone] == [one["token_ids"] for one in found]


def test_ctrl_c_prints_what_there_is_of_each(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch):
    step = Scheduler.step
    whole = figures(tiny_folder, *PROMPTS, "--max-new-tokens", "9")
    steps: list[int] = []

    def interrupted(scheduler: Scheduler) -> Any:
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(scheduler)

    monkeypatch.setattr(Scheduler, "step", interrupted)
    done = run(tiny_folder, *PROMPTS, "--max-new-tokens", "9", "--json")
    assert done.returncode == 130
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["finish_reason"] for one in found] == ["interrupted"] * 3
    assert [one["token_ids"] for one in found] == [one["token_ids"][:4] for one in whole]


def test_a_text_that_fails_is_told_and_the_others_are_whole(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    from augur_gen import GenerationError

    expected = run(tiny_folder, *PROMPTS, "--max-new-tokens", "5").stdout.split("\n")
    steps = TextBatch.__next__

    def failing(batch: TextBatch):
        step = steps(batch)
        if 1 in step.ended:
            step.ended[1] = GenerationError("no token can be chosen")
        return step

    monkeypatch.setattr(TextBatch, "__next__", failing)
    done = run(tiny_folder, *PROMPTS, "--max-new-tokens", "5")
    assert done.returncode == 1
    assert "error: prompt 2 of 3: no token can be chosen" in done.stderr
    assert done.stdout.split("\n") == expected


WRONG = {
    "company of one": (("Why?", "--max-running", "4"), "--max-running is about many texts"),
    "memory of one": (("Why?", "--cache-memory", "1GB"), "--cache-memory is about many texts"),
    "chunks": (("a", "b", "--prefill-chunk", "9"), "--prefill-chunk is about a prompt that is"),
    "stdin beside": (("a", "-"), "- stands for stdin"),
    "too long": (("a", "why " * 600), "prompt 2: it has "),
    "too little": (
        ("a", "b", "--cache-memory", "0.001 kb"),
        "--cache-memory is 1. Give more",
    ),
    "no memory": (("a", "b", "--cache-memory", "-1"), "--cache-memory is '-1', expected a size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_go_together_is_refused(tiny_folder: Path, name: str):
    arguments, said = WRONG[name]
    done = run(tiny_folder, *arguments, stdin="x")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
