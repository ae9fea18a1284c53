"""A prompt of 32,768 tokens in chunks: its memory grows with its length, not with the square."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from augur_gen import StaticKVCache, prefill
from augur_proof import WHOLE_MODEL, ComparisonError, check_close
from long_prompt_memory import long_prompt, long_prompt_model

pytestmark = pytest.mark.gate

SCRIPT = Path(__file__).with_name("long_prompt_memory.py")
CHUNK = 512

only_on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="reads the peak from Linux's /proc"
)


def measure(attention: str, *prompts: tuple[int, int | None]) -> list[dict[str, Any]]:
    """What prompts of (length, chunk size) take, one after the other in one process."""
    # Every large block is the kernel's from its first to its last use: peaks are then exact.
    settings = {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, SCRIPT, json.dumps({"attention": attention, "prompts": prompts})],
        capture_output=True,
        env=os.environ | settings,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured: list[dict[str, Any]] = json.loads(done.stdout)
    return measured


def growth(measured: list[dict[str, Any]]) -> list[float]:
    """From each length to the next, its double."""
    pairs = itertools.pairwise(measured)
    return [longer["bytes"] / shorter["bytes"] for shorter, longer in pairs]


@torch.inference_mode()
def last_logits(attention: str, length: int, chunk_size: int | None = None) -> torch.Tensor:
    model = long_prompt_model(attention)
    cache = StaticKVCache.for_model(model, length)
    return prefill(model, long_prompt(length), cache, chunk_size=chunk_size)[0]


@only_on_linux
def test_a_chunked_prompt_of_32768_tokens_takes_memory_in_proportion_to_its_length() -> None:
    lengths = (8192, 16384, 32768)
    measured = measure("sdpa", *[(length, CHUNK) for length in lengths])
    assert all(1.8 < ratio < 2.2 for ratio in growth(measured)), measured
    chunked = torch.tensor(measured[-1]["logits"])
    check_close(chunked, last_logits("sdpa", lengths[-1]), WHOLE_MODEL[torch.float32])


@only_on_linux
def test_so_does_eager_attention_which_fed_at_once_takes_the_square() -> None:
    at_once = [(2048, None), (4096, None)]
    chunked = [(4096, CHUNK), (8192, CHUNK), (16384, CHUNK)]  # 32,768 would take half a minute
    measured = measure("eager", *at_once, *chunked)
    assert growth(measured[:2])[0] > 3, measured
    assert all(1.8 < ratio < 2.2 for ratio in growth(measured[2:])), measured


@pytest.mark.parametrize("attention", ["eager", "eager-f32", "sdpa"])
def test_chunks_give_the_same_logits_as_the_whole_prompt(attention: str) -> None:
    whole = last_logits(attention, 4096)
    for chunk_size in (CHUNK, 1000):  # one divides the prompt, the other leaves a rest
        chunked = last_logits(attention, 4096, chunk_size)
        check_close(chunked, whole, WHOLE_MODEL[torch.float32])


def test_a_chunk_that_does_not_see_the_earlier_ones_is_found() -> None:
    model = long_prompt_model("eager")
    last_chunk = long_prompt(4096)[:, -CHUNK:]
    blind = prefill(model, last_chunk, StaticKVCache.for_model(model, CHUNK))[0]
    with pytest.raises(ComparisonError):
        check_close(blind, last_logits("eager", 4096), WHOLE_MODEL[torch.float32])
