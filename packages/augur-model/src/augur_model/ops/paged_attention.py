"""Attention over keys and values in blocks (Kwon et al., 2023, arXiv:2309.06180).

The tokens of many sequences stand in one row, one sequence after another, without padding. All
functions compute for each what `attention_within_window` computes from its own keys, with the same
arguments:

- query: `[1, num_heads, total, head_dim]`
- key_blocks, value_blocks: `[num_blocks, block_size, num_kv_heads, head_dim]`, one layer's memory,
  with the new tokens in their places
- pages: which tokens are whose, and in which blocks its keys are
- scale: what the scores are multiplied by
- window: tokens that a query sees, itself included; None for all
- attention: the table's `attention`, for those that call it

and return `[1, num_heads, total, head_dim]` in the dtype of `query`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from augur_model.ops.window import within_window


@dataclass(frozen=True)
class Pages:
    """The sequences of one packed row.

    Attributes:
        counts: tokens that each has in the row, one at least.
        lengths: tokens that each has in its blocks, those of the row included: they are the last.
        tables: `[num_sequences, most_blocks]`, int64, each's blocks in the order of its tokens. A
            shorter one ends with its own last block again and again: what is masked is never
            another's, whose NaN would come through a mask.
    """

    counts: tuple[int, ...]
    lengths: tuple[int, ...]
    tables: Tensor


_FEW_BLOCKS = 8
"""Up to here a call of its own costs more than keys that are masked."""

PagedAttention = Callable[
    [Tensor, Tensor, Tensor, Pages, float, int | None, Callable[..., Tensor]], Tensor
]
SinglesAttention = Callable[[Tensor, Tensor, Tensor, Tensor, list[int], float, int | None], Tensor]
"""One query for each of n sequences: query `[n, num_heads, head_dim]`, the blocks, their tables,
their lengths, scale and window -> `[n, num_heads, head_dim]`."""


def gathered_paged_attention(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    pages: Pages,
    scale: float,
    window: int | None,
    attention: Callable[..., Tensor],
) -> Tensor:
    """The reference: gather one sequence's keys, and no others, and call `attention` on them.

    So its sums are those of the sequence alone, to the bit.
    """
    attended = []
    queries = torch.split(query, list(pages.counts), dim=2)
    each = zip(queries, pages.counts, pages.lengths, pages.tables, strict=True)
    for of_one, count, length, table in each:
        first = 0 if window is None else max(0, length - count - window + 1)
        key, value = (_gather(b, table, first, length) for b in (key_blocks, value_blocks))
        mask = None
        if window is not None:
            key, value, mask = within_window(key, value, None, count, window)
        # A copy begins where memory is aligned, as a lone run's query does: the matrix library may
        # choose its kernel by that.
        attended.append(attention(of_one.clone(), key, value, mask, scale))
    return torch.cat(attended, dim=2)


def singles_apart(decode: SinglesAttention) -> PagedAttention:
    """Attention that leaves sequences with a single token, those that decode, to `decode`.

    Sequences with more tokens are computed one by one, as the reference does.
    """

    def paged_attention(
        query: Tensor,
        key_blocks: Tensor,
        value_blocks: Tensor,
        pages: Pages,
        scale: float,
        window: int | None,
        attention: Callable[..., Tensor],
    ) -> Tensor:
        starts = tuple(accumulate(pages.counts, initial=0))
        attended = torch.empty_like(query)
        singles = []
        for index, (count, length) in enumerate(zip(pages.counts, pages.lengths, strict=True)):
            if count == 1:
                singles.append(index)
                continue
            row = slice(starts[index], starts[index + 1])
            one = Pages((count,), (length,), pages.tables[index, None])
            how = (one, scale, window, attention)
            attended[:, :, row] = gathered_paged_attention(
                query[:, :, row], key_blocks, value_blocks, *how
            )
        if singles:
            columns = torch.tensor([starts[index] for index in singles], device=query.device)
            lengths = [pages.lengths[index] for index in singles]
            tables = pages.tables[torch.tensor(singles, device=query.device)]
            of_all = query[0, :, columns].transpose(0, 1)
            of_all = decode(of_all, key_blocks, value_blocks, tables, lengths, scale, window)
            attended[0, :, columns] = of_all.transpose(0, 1)
        return attended

    return paged_attention


def _decode_alike(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    tables: Tensor,
    lengths: list[int],
    scale: float,
    window: int | None,
) -> Tensor:
    """One fused call for each power of two of their lengths."""
    alike: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        num_blocks = min(length, window or length) // key_blocks.shape[1]
        alike.setdefault(max(num_blocks, _FEW_BLOCKS).bit_length(), []).append(index)
    attended = torch.empty_like(query)
    for indices in alike.values():
        chosen = torch.tensor(indices, device=query.device)
        attended[chosen] = _decode(
            *(query[chosen], key_blocks, value_blocks, tables[chosen]),
            *([lengths[index] for index in indices], scale, window),
        )
    return attended


def _decode(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    tables: Tensor,
    lengths: list[int],
    scale: float,
    window: int | None,
) -> Tensor:
    """One query for each of n sequences: `[n, num_heads, head_dim]` -> the same."""
    block_size, kv_heads = key_blocks.shape[1:3]
    oldest = [0 if window is None else max(0, length - window) for length in lengths]
    first_blocks = [place // block_size for place in oldest]
    ends = [-(-length // block_size) for length in lengths]
    most = max(map(int.__sub__, ends, first_blocks))

    def column(numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, device=query.device)[:, None]

    columns = column(first_blocks) + torch.arange(most, device=query.device)
    blocks = tables.gather(1, columns.clamp(max=tables.shape[1] - 1))
    within = torch.arange(most * block_size, device=query.device)
    places = column(first_blocks) * block_size + within
    seen = (places >= column(oldest)) & (places < column(lengths))
    # The query heads that share a key head stand in the place of a longer query: with one token
    # each sees the same keys, and no key is repeated.
    query = query.view(len(query), kv_heads, -1, query.shape[-1])
    key, value = (b[blocks].flatten(1, 2).transpose(1, 2) for b in (key_blocks, value_blocks))
    attended = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=seen[:, None, None], scale=scale
    )
    return attended.flatten(1, 2)


def _gather(blocks: Tensor, table: Tensor, first: int, length: int) -> Tensor:
    """One sequence's tokens from `first` on: `[1, num_kv_heads, length - first, head_dim]`."""
    block_size = blocks.shape[1]
    skipped = first // block_size
    start, end = skipped * block_size, -(-length // block_size)
    tokens = blocks[table[skipped:end]].flatten(0, 1)[first - start : length - start]
    return tokens.transpose(0, 1)[None]


fused_paged_attention = singles_apart(_decode_alike)
"""Sequences with a single token in few fused calls.

Keys of about as many blocks are gathered side by side, as long as the longest, and what is not
theirs is masked. So a long sequence beside many short ones costs at most twice the memory and the
time of its own keys.
"""
