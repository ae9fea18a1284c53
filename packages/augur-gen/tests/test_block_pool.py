"""Blocks, tables and the index of prefixes: what is held, shared, copied, kept and given away."""

import pytest
import torch

from augur_gen import BlockPool, BlockTable, CacheFullError, GenerationError
from augur_gen.prefix_index import PrefixIndex

BLOCK = 4


@pytest.fixture
def pool(config) -> BlockPool:
    return BlockPool(config, 6, block_size=BLOCK, dtype=torch.float32, device="cpu")


def fill(pool: BlockPool, token_ids: list[int]) -> BlockTable:
    """A table of these tokens, stored and published; its keys are the tokens' ids."""
    table = pool.reuse(token_ids)
    pool.grow(table, len(token_ids) - table.length)
    for place in range(table.length, len(token_ids)):
        pool.keys[:, table.blocks[place // BLOCK], place % BLOCK] = token_ids[place]
    table.length = len(token_ids)
    pool.publish(table, table.length, lambda start, end: token_ids[start:end])
    pool.mark_stored()
    return table


def stored(pool: BlockPool, table: BlockTable) -> list[int]:
    return pool.keys[0, table.blocks].flatten(0, 1)[: table.length, 0, 0].int().tolist()


def test_memory_is_what_the_budget_allows_and_no_more(model):
    each = BlockPool.block_bytes(model.config, model.dtype)
    assert each == 2 * 2 * 2 * 16 * 8 * 4  # keys and values, layers, heads, tokens, width, bytes
    pool = BlockPool.for_model(model, 5 * each + each - 1)
    assert (pool.num_blocks, pool.num_bytes) == (5, 5 * each)
    with pytest.raises(
        GenerationError, match=f"{each - 1} bytes; one block of 16 tokens .* {each}"
    ):
        BlockPool.for_model(model, each - 1)


@pytest.mark.parametrize("sizes", [{"num_blocks": 0}, {"block_size": 0}], ids=str)
def test_a_pool_of_no_size_is_refused(config, sizes):
    [(name, size)] = sizes.items()
    both = {"num_blocks": 1, "block_size": 1} | sizes
    with pytest.raises(GenerationError, match=f"{name} is {size}, expected at least 1"):
        BlockPool(config, **both, dtype=torch.float32, device="cpu")


def test_blocks_are_taken_as_tokens_come_and_given_back(pool):
    table = BlockTable()
    for count, blocks in ((3, 1), (1, 1), (1, 2), (8, 4)):
        assert pool.blocks_needed(table, count) == blocks - len(table.blocks)
        pool.grow(table, count)
        table.length += count
        assert (len(table.blocks), pool.num_in_use, pool.num_available) == (
            blocks,
            blocks,
            6 - blocks,
        )
        pool.check_integrity([table])
    pool.truncate(table, 5)
    pool.check_integrity([table])
    assert (pool.num_in_use, table.length) == (2, 5)
    with pytest.raises(GenerationError, match="cannot keep 6 tokens of a sequence that holds 5"):
        pool.truncate(table, 6)
    pool.release(table)
    pool.check_integrity([])
    assert pool.num_available == 6


def test_what_does_not_fit_takes_nothing(pool):
    table = BlockTable()
    pool.grow(table, 9)
    with pytest.raises(CacheFullError, match="25 more tokens need 4 blocks; 3 of 6 are free"):
        pool.grow(table, 25)
    assert (len(table.blocks), pool.num_available) == (3, 3)


def test_a_new_block_is_zeros_whatever_lay_there(pool):
    pool.keys.fill_(torch.nan)
    pool.values.fill_(torch.nan)
    table = BlockTable()
    pool.grow(table, 5)
    for memory in (pool.keys, pool.values):
        assert (memory[:, table.blocks] == 0).all()
        assert memory[:, 2:].isnan().all()


def test_full_blocks_are_found_by_their_tokens_and_by_those_before(pool):
    first = fill(pool, [*range(10)])
    for token_ids, num_found in (
        ([*range(10)], 8),
        ([0, 1, 2, 3, 4, 5, 6, 0, 8], 4),
        ([0, 1, 2, 0, 4, 5, 6, 7], 0),
        ([4, 5, 6, 7, 8], 0),  # known, but after others
        ([0, 1, 2], 0),
    ):
        table = pool.reuse(token_ids)
        assert (table.length, table.blocks) == (num_found, first.blocks[: num_found // BLOCK])
        pool.check_integrity([first, table])
        pool.release(table)
    pool.release(first)
    assert pool.num_available == 6
    again = pool.reuse([*range(10)])  # which nobody holds
    assert again.length == 8
    assert stored(pool, again) == [*range(8)]
    pool.check_integrity([again])


def test_two_prompts_with_one_hash_do_not_get_each_others_blocks():
    index = PrefixIndex()
    one, other = (0, 7), (2**61 - 1, 7)
    assert hash((None, one)) == hash((None, other))
    assert index.add(3, None, one)
    assert index.find([other]) == []
    assert index.add(4, None, other)
    assert (index.find([one]), index.find([other])) == ([3], [4])


def test_the_first_that_has_the_tokens_is_the_one_that_is_found(pool):
    """And nothing that follows the other: a chain is one sequence's, never put together."""
    one, other = pool.reuse([*range(8)]), pool.reuse([*range(8)])
    for table in (one, other):
        pool.grow(table, 8)
        table.length = 8
    pool.publish(one, 4, lambda start, end: [*range(start, end)])
    pool.publish(other, 8, lambda start, end: [*range(start, end)])
    pool.mark_stored()
    found = pool.reuse([*range(9)])
    assert found.blocks == one.blocks[:1]
    pool.check_integrity([one, other, found])


def test_a_block_that_others_read_is_copied_before_it_is_written(pool):
    first = fill(pool, [*range(8)])
    second = pool.reuse([*range(8)])
    assert (second.length, second.blocks) == (7, first.blocks)
    assert pool.blocks_needed(second, 1) == 1
    pool.grow(second, 1)
    assert second.blocks[0] == first.blocks[0]
    assert second.blocks[1] != first.blocks[1]
    pool.keys[:, second.blocks[1], 3] = 70
    second.length = 8
    assert stored(pool, first) == [*range(8)]
    assert stored(pool, second) == [*range(7), 70]
    pool.check_integrity([first, second])
    pool.release(first)
    pool.check_integrity([second])
    third = pool.reuse([*range(9)])
    assert third.blocks == [second.blocks[0], third.blocks[1]]
    assert stored(pool, third) == [*range(8)]  # it was kept for whoever asks


def test_what_is_published_and_not_stored_yet_is_not_copied(pool):
    first = pool.reuse([*range(8)])
    pool.grow(first, 8)
    pool.publish(first, 8, lambda start, end: [*range(start, end)])
    assert pool.reuse([*range(9)]).length == 8  # whoever stores it comes first
    assert pool.reuse([*range(8)]).length == 4
    pool.mark_stored()
    assert pool.reuse([*range(8)]).length == 7


def test_the_blocks_that_were_let_go_longest_ago_are_given_away_the_last_of_a_chain_first(pool):
    one, other = fill(pool, [*range(8)]), fill(pool, [*range(20, 32)])
    pool.release(other)
    pool.release(one)
    table = BlockTable()
    for num_taken, found in ((1, (8, 12)), (2, (8, 8)), (4, (8, 0)), (5, (4, 0)), (6, (0, 0))):
        while len(table.blocks) < num_taken:
            pool.grow(table, BLOCK)
            table.length += BLOCK
        looked = [pool.reuse([*range(9)]), pool.reuse([*range(20, 33)])]
        assert tuple(each.length for each in looked) == found
        # Put back in the order in which they lay.
        pool.release(looked[1])
        pool.release(looked[0])
        pool.check_integrity([table])


def test_after_clear_all_is_free_and_nothing_is_found(pool):
    fill(pool, [*range(8)])
    pool.clear()
    pool.check_integrity([])
    assert pool.num_available == 6
    assert pool.reuse([*range(9)]).length == 0


SPOILED = {
    "a block that is held and nobody has": lambda _, tables: tables.pop(),
    "a block that somebody has and is free": lambda pool, tables: pool.truncate(
        BlockTable(tables[0].blocks[:1], 1), 0
    ),
    "a block twice in a table": lambda _, tables: tables[0].blocks.append(tables[0].blocks[0]),
    "a block too many": lambda pool, tables: pool.grow(tables[0], 8),
    "a token too many": lambda _, tables: setattr(tables[0], "length", 9),
    "a chain with a gap": lambda pool, tables: pool._index.forget(tables[0].blocks[0]),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_pool_that_is_not_whole_says_so(pool, spoil):
    tables = [fill(pool, [*range(8)]), fill(pool, [*range(20, 25)])]
    pool.check_integrity(tables)
    spoil(pool, tables)
    with pytest.raises(GenerationError):
        pool.check_integrity(tables)
