"""Ten prompts on the default model's real weights in float32, from text to tokens."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from broken_twins import DECODE_TWINS, PREFILL_TWINS, check_both_fail
from candidate import candidate_logits, load_candidate, with_ops
from comparison import WHOLE_MODEL, check_close, check_same_bits
from greedy_runs import candidate_greedy, referee_greedy
from referee import load_referee, referee_logits, rendered_ids
from tiny_pairs import Pair
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from augur_model import SDPA, Ops
from augur_proof.prompts import read_prompts
from augur_tok import Tokenizer
from augur_weights import Checkpoint

pytestmark = pytest.mark.real

PROMPTS: list[str] = read_prompts()
ONE_PROMPT = PROMPTS[-1]
TWO_PROMPTS = (PROMPTS[0], PROMPTS[4])


@pytest.fixture(scope="module")
def pair(real_checkpoint: Path) -> Pair:
    gc.collect()
    return Pair(
        load_candidate(real_checkpoint, torch.float32),
        load_referee(real_checkpoint, torch.float32),
    )


@pytest.fixture(scope="module")
def tokenizer(real_checkpoint: Path) -> Tokenizer:
    return Tokenizer.from_folder(real_checkpoint)


@pytest.fixture(scope="module")
def referee_tokenizer(real_checkpoint: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(real_checkpoint)


@pytest.fixture(scope="module")
def eos_token_ids(real_checkpoint: Path) -> list[int]:
    token_ids: list[int] = Checkpoint(real_checkpoint).generation_config["eos_token_id"]
    assert len(token_ids) == 2
    return token_ids


def _chat(prompt: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": prompt}]


def test_there_are_ten_prompts() -> None:
    assert len(set(PROMPTS)) == 10


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_input_ids_thirty_two_greedy_tokens_and_all_their_logits_equal_transformers(
    prompt: str,
    pair: Pair,
    tokenizer: Tokenizer,
    referee_tokenizer: PreTrainedTokenizerBase,
    eos_token_ids: list[int],
) -> None:
    input_ids = tokenizer.encode_chat(_chat(prompt))
    rendered = referee_tokenizer.apply_chat_template(
        _chat(prompt), add_generation_prompt=True, tokenize=True
    )
    assert input_ids == rendered_ids(rendered)

    found = candidate_greedy(pair.candidate, input_ids, 32, eos_token_ids)
    # Stopped by the eos tokens that it finds in the checkpoint itself.
    expected = referee_greedy(pair.referee, input_ids, 32)
    check_same_bits(found.logits[0], expected.logits[0])
    assert found.token_ids == expected.token_ids
    check_same_bits(found.logits, expected.logits)
    assert len(found.token_ids) == 32 or found.token_ids[-1] in eos_token_ids


@pytest.mark.parametrize("prompt", TWO_PROMPTS, ids=range(2))
def test_other_paths_stay_within_tolerance_and_choose_the_same_tokens(
    prompt: str, pair: Pair, tokenizer: Tokenizer, eos_token_ids: list[int]
) -> None:
    input_ids = tokenizer.encode_chat(_chat(prompt))
    expected = candidate_greedy(pair.candidate, input_ids, 8, eos_token_ids)
    runs = {
        "sdpa": candidate_greedy(with_ops(pair.candidate, SDPA), input_ids, 8, eos_token_ids),
        "chunked": candidate_greedy(pair.candidate, input_ids, 8, eos_token_ids, chunk_size=7),
        "uncached": candidate_greedy(pair.candidate, input_ids, 8, eos_token_ids, use_cache=False),
    }
    for path, run in runs.items():
        assert run.token_ids == expected.token_ids, path
        check_close(run.logits, expected.logits, WHOLE_MODEL[torch.float32])


@pytest.mark.parametrize(
    "ops",
    [pytest.param(ops, id=name) for name, ops in {**DECODE_TWINS, **PREFILL_TWINS}.items()],
)
def test_broken_twins_fail_on_real_weights(ops: Ops, pair: Pair, tokenizer: Tokenizer) -> None:
    token_ids = torch.tensor([tokenizer.encode(ONE_PROMPT)])
    found = candidate_logits(with_ops(pair.candidate, ops), token_ids)
    check_both_fail(found, referee_logits(pair.referee, token_ids), WHOLE_MODEL[torch.float32])
