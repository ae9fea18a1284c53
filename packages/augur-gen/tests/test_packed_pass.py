"""One row of many sequences, and one sequence over the same blocks as a cache like any other."""

import pytest
import torch

from augur_gen import (
    BlockPool,
    CacheFullError,
    GenerationError,
    PackedPass,
    PagedKVCache,
    StaticKVCache,
    StopConditions,
    decode_step,
    generate,
    packed_forward,
    packed_forward_by_sequence,
    prefill,
)
from augur_model import EAGER, SDPA

BLOCK = 4
each_ops = pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])


def pool_of(model, num_blocks: int = 30) -> BlockPool:
    each = BlockPool.block_bytes(model.config, model.dtype, BLOCK)
    return BlockPool.for_model(model, num_blocks * each, block_size=BLOCK)


def row(model, prompts):
    """A pool, and a pass that brings all of these."""
    pool = pool_of(model)
    tables = [pool.reuse(token_ids) for token_ids in prompts]
    for table, token_ids in zip(tables, prompts, strict=True):
        pool.grow(table, len(token_ids))
    return tables, PackedPass(pool, tables, [len(token_ids) for token_ids in prompts])


PROMPTS = ([3, 1, 4, 1, 5], [9], [2, 6, 5, 3])


@pytest.mark.parametrize("forward", [packed_forward, packed_forward_by_sequence])
def test_a_row_gives_logits_where_they_are_asked_for(model, forward):
    tables, packed = row(model, PROMPTS)
    assert packed.positions.tolist() == [[0, 1, 2, 3, 4, 0, 0, 1, 2, 3]]
    logits = forward(model, [t for prompt in PROMPTS for t in prompt], packed, [4, 5, 9])
    assert [table.length for table in tables] == [5, 1, 4]
    for found, prompt in zip(logits, PROMPTS, strict=True):
        expected = model(torch.tensor([prompt]))[0, -1]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("forward", [packed_forward, packed_forward_by_sequence])
def test_a_row_without_logits_fills_the_cache(model, forward):
    tables, packed = row(model, PROMPTS)
    logits = forward(model, [t for prompt in PROMPTS for t in prompt], packed, [])
    assert logits.shape == (0, model.config.vocab_size)
    assert [table.length for table in tables] == [5, 1, 4]


def test_the_proof_leaves_the_model_its_table_of_ops(model):
    ops, weights = model.ops, [parameter.data_ptr() for parameter in model.parameters()]
    _, packed = row(model, PROMPTS)
    packed_forward_by_sequence(model, [t for prompt in PROMPTS for t in prompt], packed, [4, 5, 9])
    assert model.ops is ops
    assert [parameter.data_ptr() for parameter in model.parameters()] == weights


def test_a_row_takes_no_mask_no_padding_and_all_its_tokens(model):
    token_ids = torch.tensor([[t for prompt in PROMPTS for t in prompt]])
    _, packed = row(model, PROMPTS)
    mask = torch.ones(1, 10, dtype=torch.bool)
    with pytest.raises(GenerationError, match="pages take no mask"):
        model(token_ids, packed.positions, cache=packed, mask=mask)
    with pytest.raises(GenerationError, match="9 tokens are fed, the pass has 10"):
        model(token_ids[:, :9], packed.positions[:, :9], cache=packed)
    with pytest.raises(GenerationError, match=r"query is \[1, 4, 11, 8\]; .* 10, .*no padding"):
        model(
            torch.cat((token_ids, token_ids[:, :1]), 1),
            torch.arange(11)[None],
            cache=packed,
            num_tokens=[10],
        )


@each_ops
@pytest.mark.parametrize("chunk_size", [None, 1, 4, 7])
def test_one_sequence_over_blocks_gets_what_a_static_cache_gives(
    make_model, prompt, ops, chunk_size
):
    model = make_model(ops=ops)
    pool = pool_of(model)
    static, paged = StaticKVCache.for_model(model, 60), PagedKVCache(pool)
    token_ids = torch.tensor([prompt])
    for _ in range(2):
        found = prefill(model, token_ids, paged, chunk_size=chunk_size)
        expected = prefill(model, token_ids, static, chunk_size=chunk_size)
        for _ in range(6):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            assert ops is SDPA or torch.equal(found, expected)
            next_ids = expected.argmax(-1, keepdim=True)
            found = decode_step(model, next_ids, paged)
            expected = decode_step(model, next_ids, static)
            assert paged.lengths == static.lengths
        assert pool.num_in_use == pool.blocks_for(paged.length)
        for cache in (static, paged):
            cache.truncate(10)
        assert pool.num_in_use == 3
    paged.release()
    assert (pool.num_in_use, paged.length) == (0, 0)


def test_two_sequences_on_one_pool_do_not_feel_each_other(model, prompt):
    pool = pool_of(model)
    generations = [
        generate(model, token_ids, StopConditions(9), cache=PagedKVCache(pool))
        for token_ids in (prompt, prompt[::-1])
    ]
    interleaved = list(zip(*generations, strict=True))
    for token_ids, found in zip(
        (prompt, prompt[::-1]), zip(*interleaved, strict=True), strict=True
    ):
        assert list(found) == generate(model, token_ids, StopConditions(9)).run().token_ids


def test_a_full_pool_is_told_before_anything_is_written(model, prompt):
    pool = pool_of(model, 5)
    cache = PagedKVCache(pool)
    with pytest.raises(CacheFullError, match="21 more tokens need 6 blocks; 5 of 5 are free"):
        cache.check_room(21)
    prefill(model, torch.tensor([prompt]), cache)
    decode_step(model, torch.tensor([[1]]), cache)
    before = pool.keys.clone()
    with pytest.raises(CacheFullError, match="1 more tokens need 1 blocks; 0 of 5 are free"):
        decode_step(model, torch.tensor([[1]]), cache)
    assert torch.equal(pool.keys, before)
    assert cache.length == 20
