"""Prefill and decode over a cache give what one whole forward pass gives."""

import pytest
import torch
from torch import Tensor

from augur_gen import (
    CachedSteps,
    CacheFullError,
    GenerationError,
    StaticKVCache,
    UncachedSteps,
    decode_step,
    prefill,
)
from augur_model import EAGER, SDPA

LENGTH = 99
BOTH = pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])


@pytest.fixture
def token_ids(config) -> Tensor:
    """Two rows of 99 tokens."""
    generator = torch.Generator().manual_seed(2)
    return torch.randint(config.vocab_size, (2, LENGTH), generator=generator)


def check_logits(actual: Tensor, expected: Tensor) -> None:
    # Other shapes reach the matrix library, so its sums run in another order.
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)
    assert torch.equal(actual.argmax(-1), expected.argmax(-1))


@BOTH
@pytest.mark.parametrize("prompt_length", [1, 2, 19, 98])
def test_prefill_then_decode_equals_the_whole_forward_pass(
    make_model, token_ids, ops, prompt_length
):
    model = make_model(ops=ops)
    whole = model(token_ids)
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    check_logits(prefill(model, token_ids[:, :prompt_length], cache), whole[:, prompt_length - 1])
    for index in range(prompt_length, LENGTH):
        logits = decode_step(model, token_ids[:, index : index + 1], cache)
        check_logits(logits, whole[:, index])
    assert cache.length == LENGTH


@BOTH
@pytest.mark.parametrize("chunk_size", [1, 3, 7, 64, 99, 1000, 10**30])
def test_prefill_in_chunks_equals_prefill_at_once(make_model, token_ids, ops, chunk_size):
    model = make_model(ops=ops)
    at_once, in_chunks = (StaticKVCache.for_model(model, LENGTH, batch_size=2) for _ in range(2))
    expected = prefill(model, token_ids, at_once)
    check_logits(prefill(model, token_ids, in_chunks, chunk_size=chunk_size), expected)
    assert in_chunks.length == LENGTH
    torch.testing.assert_close(in_chunks.keys, at_once.keys, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(in_chunks.values, at_once.values, atol=1e-4, rtol=1e-4)


def test_only_the_last_token_of_the_last_chunk_reaches_the_head(model, token_ids):
    chunk_lengths, kept = [], []
    model.register_forward_pre_hook(lambda _, args: chunk_lengths.append(args[0].shape[1]))
    model.lm_head.register_forward_pre_hook(lambda _, args: kept.append(args[0].shape[1]))
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    prefill(model, token_ids, cache, chunk_size=40)
    assert chunk_lengths == [40, 40, 19]
    assert kept == [0, 0, 1]


@BOTH
def test_several_tokens_may_be_fed_onto_a_filled_cache_at_any_time(make_model, token_ids, ops):
    model = make_model(ops=ops)
    whole = model(token_ids)
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    for start, end in [(0, 5), (5, 6), (6, 30), (30, 31), (31, 33), (33, 99)]:
        check_logits(prefill(model, token_ids[:, start:end], cache), whole[:, end - 1])


def test_a_truncated_cache_goes_on_as_if_the_rest_had_never_been_fed(model, token_ids):
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    prefill(model, token_ids.flip(-1), cache)
    prefill_again = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    cache.truncate(0)
    expected = prefill(model, token_ids, prefill_again)
    assert torch.equal(prefill(model, token_ids, cache), expected)


def test_a_cache_fed_one_position_off_fails_the_comparison(model, token_ids):
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    prefill(model, token_ids[:, :20], cache)
    cache.truncate(19)
    with pytest.raises(AssertionError, match="not close"):
        check_logits(decode_step(model, token_ids[:, 20:21], cache), model(token_ids)[:, 20])


@pytest.mark.parametrize("chunk_size", [None, 3])
def test_a_prompt_that_does_not_fit_is_refused_before_its_first_chunk(model, token_ids, chunk_size):
    cache = StaticKVCache.for_model(model, LENGTH - 1, batch_size=2)
    with pytest.raises(CacheFullError, match="holds 0 of 98 tokens; 99 more"):
        prefill(model, token_ids, cache, chunk_size=chunk_size)
    assert cache.length == 0
    assert not cache.keys.any()
    assert not cache.values.any()


def test_a_decode_step_past_the_end_of_the_cache_writes_nothing(model, token_ids):
    cache = StaticKVCache.for_model(model, 4, batch_size=2)
    prefill(model, token_ids[:, :4], cache)
    before = cache.keys.clone(), cache.values.clone()
    with pytest.raises(CacheFullError):
        decode_step(model, token_ids[:, 4:5], cache)
    assert torch.equal(cache.keys, before[0])
    assert torch.equal(cache.values, before[1])


def test_a_batch_of_another_size_than_the_caches_is_refused(model, token_ids):
    with pytest.raises(GenerationError, match=r"keys is .* \[2, 2, 99, 8\].* \[1, 2, 99, 8\]"):
        prefill(model, token_ids, StaticKVCache.for_model(model, LENGTH))


def test_prefill_needs_a_token_and_a_chunk_of_one_or_more(model, token_ids):
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    with pytest.raises(GenerationError, match="no tokens to feed"):
        prefill(model, token_ids[:, :0], cache)
    for chunk_size in (0, -1):
        with pytest.raises(GenerationError, match=f"chunk_size is {chunk_size}, expected at least"):
            prefill(model, token_ids, cache, chunk_size=chunk_size)


@pytest.mark.parametrize("logits_to_keep", [None, 1])
def test_uncached_steps_give_what_cached_steps_give(model, token_ids, logits_to_keep):
    cache = StaticKVCache.for_model(model, LENGTH, batch_size=2)
    cached = CachedSteps(model, cache, chunk_size=7)
    uncached = UncachedSteps(model, logits_to_keep=logits_to_keep)
    check_logits(uncached.prefill(token_ids[:, :30]), cached.prefill(token_ids[:, :30]))
    for index in range(30, 40):
        column = token_ids[:, index : index + 1]
        check_logits(uncached.decode(column), cached.decode(column))


def test_uncached_steps_start_with_a_prompt(model, token_ids):
    with pytest.raises(GenerationError, match="decode was called before prefill"):
        UncachedSteps(model).decode(token_ids[:, :1])
