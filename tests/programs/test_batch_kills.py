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

NUM_PROMPTS = 200
NUM_KILLS = 20
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
    # Deep enough for an answer to take a hundredth of a second.
    model = write_tiny_checkpoint(folder / "model", num_hidden_layers=4)
    prompts = folder / "prompts.jsonl"
    lengths = random.Random(1)
    # Of unequal lengths, so that they are not ready in their order.
    lines = (
        {"id": f"p{n}", "prompt": f"blue {n}", "max_new_tokens": lengths.randint(1, 30)}
        for n in range(NUM_PROMPTS)
    )
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sampled = ("--temperature", "1", "--seed", "3")
    return ("--input", prompts, "--model", model, *COMPUTING, *sampled, "--output")


@pytest.fixture(scope="module")
def undisturbed(command: tuple[str | Path, ...]) -> bytes:
    answers = Path(command[1]).with_name("undisturbed.jsonl")
    done = run_in_process("run_prompt.py", *command, answers, "--max-running", "1")
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
    expected = set(undisturbed.splitlines())
    kept: set[bytes] = set()
    # Each run is left alone until the file has grown to some size, and killed soon after.
    for size in sorted(moments.sample(range(len(undisturbed)), NUM_KILLS)):
        company = ("--max-running", str(moments.choice((1, 3, 16, 50))))
        process = processes.Process(
            target=run_in_process, args=("run_prompt.py", *command, answers, *company)
        )
        process.start()
        deadline_s = time.monotonic() + DEADLINE_S
        while size_of(answers) < size and process.is_alive():
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        time.sleep(moments.random() * 0.05)
        process.kill()
        process.join()
        found = answers.read_bytes() if answers.exists() else b""
        whole = set(found[: found.rfind(b"\n") + 1].splitlines())
        assert whole <= expected
        assert kept <= whole, "what is answered is not lost"
        kept = whole
    done = run_in_process("run_prompt.py", *command, answers)
    assert done.returncode == 0, done.stderr
    assert answers.read_bytes() == undisturbed
