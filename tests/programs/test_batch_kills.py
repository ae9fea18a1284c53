"""A batch that is killed, again and again, gives the file that an undisturbed one gives."""

import json
import multiprocessing
import os
import random
import sys
import time
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from program_run import COMPUTING, run_in_process

NUM_PROMPTS = 24
NUM_KILLS = 6
DEADLINE_S = 120


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Real processes, each forked from a small one that has imported all: that takes seconds."""
    context = multiprocessing.get_context("forkserver")
    # The last is what typer imports when it first reads a command line.
    context.set_forkserver_preload(["run_prompt", "program_run", "typer._adapters"])
    with pytest.MonkeyPatch.context() as patch:
        # Python 3.11 gives the server no other way to find what is no package.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    return context


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    folder = tmp_path_factory.mktemp("kills")
    # Deep enough for an answer to take some hundredths of a second.
    model = write_tiny_checkpoint(folder / "model", num_hidden_layers=8)
    prompts = folder / "prompts.jsonl"
    lines = ({"id": f"p{number}", "prompt": f"blue {number}"} for number in range(NUM_PROMPTS))
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sampled = ("--temperature", "1", "--seed", "3", "--max-new-tokens", "12")
    return ("--input", prompts, "--model", model, *COMPUTING, *sampled, "--output")


@pytest.fixture(scope="module")
def undisturbed(command: tuple[str | Path, ...]) -> bytes:
    answers = Path(command[1]).with_name("undisturbed.jsonl")
    done = run_in_process("run_prompt.py", *command, answers)
    assert done.returncode == 0, done.stderr
    whole = answers.read_bytes()
    ids = [json.loads(line)["id"] for line in whole.splitlines()]
    assert ids == [f"p{number}" for number in range(NUM_PROMPTS)]
    return whole


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.gate
def test_killed_at_random_moments_and_started_again_it_gives_each_answer_once(
    processes: ForkServerContext,
    command: tuple[str | Path, ...],
    undisturbed: bytes,
    tmp_path: Path,
):
    answers = tmp_path / "answers.jsonl"
    moments = random.Random(0)
    killed_at = []
    # Each run is left alone until the file has grown to some size, and killed soon after.
    for size in sorted(moments.sample(range(len(undisturbed) * 3 // 4), NUM_KILLS)):
        before = size_of(answers)
        process = processes.Process(
            target=run_in_process, args=("run_prompt.py", *command, answers)
        )
        process.start()
        deadline_s = time.monotonic() + DEADLINE_S
        while size_of(answers) < max(size, before) and process.is_alive():
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        time.sleep(moments.random() * 0.05)
        process.kill()
        process.join()
        killed_at.append(size_of(answers))
        assert undisturbed.startswith(answers.read_bytes() if answers.exists() else b"")
    # Where each kill came is the clock's; that some came in the middle is what this is about.
    assert any(0 < size < len(undisturbed) for size in killed_at)
    done = run_in_process("run_prompt.py", *command, answers)
    assert done.returncode == 0, done.stderr
    assert answers.read_bytes() == undisturbed
