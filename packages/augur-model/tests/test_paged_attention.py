"""Attention over blocks is attention over each sequence's own keys."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from augur_model import EAGER, EAGER_F32, SDPA
from augur_model.ops import Pages
from augur_model.ops.window import attention_within_window

HEADS = {"one": (1, 1), "each its own": (4, 4), "shared by two": (4, 2), "by all": (6, 1)}
BLOCK, HEAD_DIM, SCALE = 4, 8, 0.3
# Tokens in this pass and in all: ends within a block, at one, and one token to either side.
SEQUENCES = (
    *((1, 1), (1, 4), (3, 5), (1, 21), (7, 7), (1, 3), (2, 19), (1, 16), (8, 8)),
    *((1, 130), (1, 40), (1, 64), (1, 31), (2, 65)),
)


def paged(heads: tuple[int, int], dtype: torch.dtype, hidden: float = 0.0):
    """Query, blocks of keys and of values, and pages; places that are nobody's hold `hidden`."""
    generator = torch.Generator().manual_seed(0)
    num_heads, kv_heads = heads
    counts, lengths = zip(*SEQUENCES, strict=True)
    needed = [-(-length // BLOCK) for length in lengths]
    free = torch.randperm(sum(needed) + 3, generator=generator).tolist()
    tables = [[free.pop() for _ in range(count)] for count in needed]
    keys, values = (torch.full((len(free) + sum(needed), BLOCK, kv_heads, HEAD_DIM), hidden),) * 2
    keys, values = keys.clone(), values.clone()
    for table, length in zip(tables, lengths, strict=True):
        for place in range(length):
            for blocks in (keys, values):
                at = blocks[table[place // BLOCK], place % BLOCK]
                at.normal_(generator=generator)
    query = torch.randn(1, sum(counts), num_heads, HEAD_DIM, generator=generator).transpose(1, 2)
    most = max(needed)
    padded = torch.tensor([table + table[-1:] * (most - len(table)) for table in tables])
    return query.to(dtype), keys.to(dtype), values.to(dtype), Pages(counts, lengths, padded)


def alone(query: Tensor, keys: Tensor, values: Tensor, pages: Pages, window, ops) -> list[Tensor]:
    """Each sequence's keys copied token by token, and `attention` as a static cache asks for it."""
    expected, start = [], 0
    for count, length, table in zip(pages.counts, pages.lengths, pages.tables, strict=True):
        own = [
            torch.stack(
                [blocks[table[place // BLOCK], place % BLOCK] for place in range(length)], 1
            )
            for blocks in (keys, values)
        ]
        of_one = query[:, :, start : start + count]
        how = (None, SCALE, window, ops)
        expected.append(attention_within_window(of_one, own[0][None], own[1][None], *how))
        start += count
    return expected


@pytest.mark.parametrize("window", [None, 2, 4, 5, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_the_reference_gives_each_sequence_the_bits_it_gets_alone(heads, dtype, window):
    query, keys, values, pages = paged(heads, dtype)
    for ops in (EAGER, EAGER_F32):
        found = ops.paged_attention(query, keys, values, pages, SCALE, window, ops.attention)
        assert torch.equal(found, torch.cat(alone(query, keys, values, pages, window, ops), 2))


@pytest.mark.parametrize("window", [None, 2, 4, 5, 17])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_the_fused_path_is_close_to_it(heads, window, assert_op_close):
    query, keys, values, pages = paged(heads, torch.float32)
    found = SDPA.paged_attention(query, keys, values, pages, SCALE, window, SDPA.attention)
    assert_op_close(found, torch.cat(alone(query, keys, values, pages, window, EAGER), 2))


@pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
@pytest.mark.parametrize("window", [None, 5])
def test_blocks_of_others_are_not_looked_at(ops, window):
    """All of them are NaN but for one sequence's, which has zeros after its last token."""
    query, keys, values, pages = paged((4, 2), torch.float32)
    kept = torch.zeros(len(keys), dtype=torch.bool)
    kept[pages.tables[3]] = True
    keys[~kept] = values[~kept] = torch.nan
    found = ops.paged_attention(query, keys, values, pages, SCALE, window, ops.attention)
    start = sum(pages.counts[:3])
    assert found[:, :, start].isfinite().all()
    assert not found[:, :, :start].isfinite().any()


def test_a_long_sequence_beside_short_ones_gathers_twice_its_keys_at_most(monkeypatch):
    gathered = []
    fused = functional.scaled_dot_product_attention

    def counted(query, key, *args, **options):
        gathered.append(key.shape[0] * key.shape[2])
        return fused(query, key, *args, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", counted)
    lengths = (4000, *(40,) * 20)
    needed = [-(-length // BLOCK) for length in lengths]
    blocks = torch.randn(sum(needed), BLOCK, 1, HEAD_DIM)
    tables = [list(range(count)) + [0] * (needed[0] - count) for count in needed]
    pages = Pages((1,) * 21, lengths, torch.tensor(tables))
    query = torch.randn(1, 1, 21, HEAD_DIM)
    SDPA.paged_attention(query, blocks, blocks, pages, SCALE, None, SDPA.attention)
    assert len(gathered) == 2
    assert sum(gathered) <= 2 * sum(lengths)


def test_a_fused_call_with_a_place_off_is_found(assert_op_close):
    """The twins: a token too few, and a neighbour's table."""
    query, keys, values, pages = paged((4, 2), torch.float32)
    expected = torch.cat(alone(query, keys, values, pages, None, EAGER), 2)
    short = Pages(pages.counts, (*pages.lengths[:3], 20, *pages.lengths[4:]), pages.tables)
    swapped = Pages(pages.counts, pages.lengths, pages.tables.roll(1, 0))
    for wrong in (short, swapped):
        found = SDPA.paged_attention(query, keys, values, wrong, SCALE, None, SDPA.attention)
        with pytest.raises(AssertionError, match="not close"):
            assert_op_close(found, expected)
