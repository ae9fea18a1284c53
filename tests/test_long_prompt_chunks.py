"""A prompt longer than the engine's chunk is fed in chunks; a shorter one at once, to the bit."""

import json
from pathlib import Path

import pytest
import torch

from augur.llm import LLM, PREFILL_CHUNK, load
from augur.options import GenerationOptions
from augur_gen import StopConditions, generate
from augur_model import QwenForCausalLM
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from program_run import run_in_process

ONE_TOKEN = GenerationOptions(max_new_tokens=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("chunks") / "checkpoint"
    return write_tiny_checkpoint(target, max_position_embeddings=4 * PREFILL_CHUNK)


@pytest.fixture(scope="module")
def engine(folder: Path) -> LLM:
    return load(folder, device="cpu", dtype="float32")


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tokens of each forward pass."""
    lengths: list[int] = []
    forward = QwenForCausalLM.forward

    def noting(model: QwenForCausalLM, token_ids: torch.Tensor, *rest, **options):
        lengths.append(token_ids.shape[1])
        return forward(model, token_ids, *rest, **options)

    monkeypatch.setattr(QwenForCausalLM, "forward", noting)
    return lengths


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (1, [1]),
        (PREFILL_CHUNK, [PREFILL_CHUNK]),
        (PREFILL_CHUNK + 1, [PREFILL_CHUNK, 1]),
        (2 * PREFILL_CHUNK + 7, [PREFILL_CHUNK, PREFILL_CHUNK, 7]),
    ],
)
def test_no_forward_pass_takes_more_than_a_chunk(
    engine: LLM, fed: list[int], length: int, expected: list[int]
) -> None:
    engine.generate([1] * length, ONE_TOKEN).run()
    assert fed == expected


def test_a_prompt_of_a_chunk_has_the_bits_of_one_that_is_fed_at_once(engine: LLM) -> None:
    prompt = [index % 250 for index in range(PREFILL_CHUNK)]
    found: list[torch.Tensor] = []

    def keep(logits: torch.Tensor) -> torch.Tensor:
        found.append(logits)
        return logits.argmax(-1)

    stop = StopConditions(1, frozenset())
    for chunk_size in (PREFILL_CHUNK, None):
        generate(engine.model, prompt, stop, sampler=keep, chunk_size=chunk_size).run()
    assert torch.equal(*found)


def test_the_program_takes_another_chunk(folder: Path, fed: list[int]) -> None:
    asked = ("blue " * 20, "--raw", "--model", folder, "--max-new-tokens", "1", "--device", "cpu")
    done = run_in_process("run_prompt.py", *asked, "--json", "--prefill-chunk", "9")
    assert done.returncode == 0, done.stderr
    num_tokens = len(json.loads(done.stdout)["prompt_token_ids"])
    assert fed[:-1] == [9] * (len(fed) - 1)
    assert sum(fed) == num_tokens > 18


def test_a_chunk_of_no_tokens_is_refused(folder: Path) -> None:
    done = run_in_process("run_prompt.py", "Why?", "--model", folder, "--prefill-chunk", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "prefill-chunk" in done.stderr
