"""The ten reference prompts on the default model's real weights, against transformers."""

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
import torch

import augur
from augur_gen import CachedSteps, StaticKVCache, Steps, UncachedSteps
from augur_model import SDPA, Ops, QwenForCausalLM
from augur_proof import (
    DECODE_TWINS,
    PREFILL_TWINS,
    WHOLE_MODEL,
    Candidate,
    GreedyRun,
    Pair,
    Referee,
    check_both_fail,
    check_close,
    check_same_bits,
    read_prompts,
)
from augur_tok import Tokenizer
from augur_weights import Checkpoint

pytestmark = pytest.mark.real

PROMPTS: list[str] = read_prompts()
ONE_PROMPT = PROMPTS[-1]
TWO_PROMPTS = (PROMPTS[0], PROMPTS[4])
TWINS = {**DECODE_TWINS, **PREFILL_TWINS}
# What a change is seen by at once; the gate runs the rest.
BY_DEFAULT = {*TWO_PROMPTS, *list(TWINS)[:2]}


def in_the_gate(name: str) -> pytest.MarkDecorator | tuple[()]:
    return () if name in BY_DEFAULT else pytest.mark.gate


@pytest.fixture(scope="module")
def pair(real_checkpoint: Path) -> Pair:
    gc.collect()
    return Pair(
        Candidate.load(real_checkpoint, dtype=torch.float32),
        Referee.load(real_checkpoint, dtype=torch.float32),
    )


@pytest.fixture(scope="module")
def tokenizer(real_checkpoint: Path) -> Tokenizer:
    return Tokenizer.from_folder(real_checkpoint)


@pytest.fixture(scope="module")
def eos_token_ids(real_checkpoint: Path) -> list[int]:
    token_ids: list[int] = Checkpoint(real_checkpoint).generation_config["eos_token_id"]
    assert len(token_ids) == 2
    return token_ids


@pytest.fixture(scope="module")
def greedily(
    pair: Pair, tokenizer: Tokenizer, eos_token_ids: list[int]
) -> Callable[..., GreedyRun]:
    """A prompt's run to 32 tokens, computed once."""
    return cache(
        lambda prompt: pair.candidate.greedy(_input_ids(tokenizer, prompt), 32, eos_token_ids)
    )


def _input_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    return tokenizer.encode_chat([{"role": "user", "content": prompt}])


def test_there_are_ten_prompts() -> None:
    assert len(set(PROMPTS)) == 10


@pytest.mark.parametrize(
    "prompt", [pytest.param(one, marks=in_the_gate(one)) for one in PROMPTS], ids=range(10)
)
def test_input_ids_thirty_two_greedy_tokens_and_all_their_logits_equal_transformers(
    prompt: str,
    pair: Pair,
    tokenizer: Tokenizer,
    eos_token_ids: list[int],
    greedily: Callable[..., GreedyRun],
) -> None:
    input_ids = _input_ids(tokenizer, prompt)
    assert input_ids == pair.referee.encode(prompt)
    found = greedily(prompt)
    # Stopped by the eos tokens that it finds in the checkpoint itself.
    expected = pair.referee.greedy(input_ids, 32)
    check_same_bits(found.logits[0], expected.logits[0])
    assert found.token_ids == expected.token_ids
    check_same_bits(found.logits, expected.logits)
    assert len(found.token_ids) == 32 or found.token_ids[-1] in eos_token_ids


@pytest.mark.gate
@pytest.mark.parametrize("prompt", TWO_PROMPTS, ids=range(2))
def test_transformers_own_generate_gives_the_same_tokens(
    prompt: str, pair: Pair, tokenizer: Tokenizer, greedily: Callable[..., GreedyRun]
) -> None:
    input_ids = torch.tensor([_input_ids(tokenizer, prompt)])
    output = pair.referee.model.generate(
        input_ids,
        attention_mask=torch.ones_like(input_ids),
        max_new_tokens=32,
        do_sample=False,
        repetition_penalty=1.0,  # the checkpoint's own is no part of greedy
    )
    assert greedily(prompt).token_ids == output[0, input_ids.shape[1] :].tolist()


@pytest.mark.gate
def test_all_together_twice_and_in_two_orders_they_give_the_lone_runs_tokens(
    pair: Pair,
    tokenizer: Tokenizer,
    eos_token_ids: list[int],
    real_checkpoint: Path,
    greedily: Callable[..., GreedyRun],
) -> None:
    eos, model = frozenset(eos_token_ids), pair.candidate.model
    llm = augur.LLM(model, tokenizer, Checkpoint(real_checkpoint), eos, "eager", 0.0)
    # Another order is another company in every step.
    for prompts in (PROMPTS, PROMPTS, PROMPTS[::-1]):
        answers = llm.batch(prompts, max_new_tokens=32)
        expected = [greedily(prompt).token_ids for prompt in prompts]
        assert [answer.token_ids for answer in answers] == expected


def in_chunks(model: QwenForCausalLM, capacity: int, chunk_size: int) -> Steps:
    cache = StaticKVCache.for_model(model, capacity)
    return CachedSteps(model, cache, chunk_size=chunk_size)


@pytest.mark.gate
@pytest.mark.parametrize("prompt", TWO_PROMPTS, ids=range(2))
def test_other_paths_stay_within_tolerance_and_choose_the_same_tokens(
    prompt: str, pair: Pair, tokenizer: Tokenizer, eos_token_ids: list[int]
) -> None:
    input_ids, eager = _input_ids(tokenizer, prompt), pair.candidate
    expected = eager.greedy(input_ids, 8, eos_token_ids)
    paths = {
        "sdpa": eager.with_ops(SDPA),
        "chunked": replace(eager, new_steps=partial(in_chunks, chunk_size=7)),
        "uncached": replace(eager, new_steps=lambda model, _: UncachedSteps(model)),
    }
    for path, candidate in paths.items():
        run = candidate.greedy(input_ids, 8, eos_token_ids)
        assert run.token_ids == expected.token_ids, path
        check_close(run.logits, expected.logits, WHOLE_MODEL[torch.float32])


@pytest.mark.parametrize(
    "ops",
    [pytest.param(ops, id=name, marks=in_the_gate(name)) for name, ops in TWINS.items()],
)
def test_broken_twins_fail_on_real_weights(ops: Ops, pair: Pair, tokenizer: Tokenizer) -> None:
    token_ids = torch.tensor([tokenizer.encode(ONE_PROMPT)])
    found, expected = pair.with_ops(ops).logits(token_ids)
    check_both_fail(found, expected, WHOLE_MODEL[torch.float32])
