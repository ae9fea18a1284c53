"""Attention over keys and values in blocks: sequences with one token each, in one launch.

As `triton_decode_attention`, with the place of each key looked up in its sequence's table: program
(sequence and key/value head, split) takes SPLIT keys from the first that the query sees. Tiles: q
`[ROWS, CHANNELS]`, ROWS being the query heads of a key/value head up to 16 or more, k and v `[KEYS,
CHANNELS]`. Splits past a sequence's end say so by a largest score of -inf. Rounding: see
`triton_online_softmax`.

Sequences that bring more tokens are computed one by one, their keys gathered, as the plain op does.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.errors import KernelInputError
from augur_kernels.triton_arithmetic import product
from augur_kernels.triton_decode_attention import KEYS, SPLIT, new_parts, put_together
from augur_kernels.triton_inputs import check_inputs, check_shape, device_of, with_channels_together
from augur_kernels.triton_online_softmax import attend_to_tile
from augur_model.ops import singles_apart

_ALL = 2**31 - 1
"""A window that hides nothing."""


@singles_apart
def paged_attention(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    tables: Tensor,
    lengths: list[int],
    scale: float,
    window: int | None,
) -> Tensor:
    """As `augur_model.ops.gathered_paged_attention`, once the decorator has parted the sequences.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    op = "paged_attention"
    check_inputs(op, query=query, key_blocks=key_blocks, value_blocks=value_blocks)
    check_shape(op, "value_blocks", value_blocks, tuple(key_blocks.shape))
    check_shape(op, "query", query, (*query.shape[:2], key_blocks.shape[-1]))
    if query.shape[1] % key_blocks.shape[2]:
        raise KernelInputError(
            f"{op}: {query.shape[1]} query heads do not share {key_blocks.shape[2]} key/value "
            "heads evenly"
        )
    query, key_blocks, value_blocks = (
        with_channels_together(one) for one in (query, key_blocks, value_blocks)
    )
    number, heads, head_dim = query.shape
    block_size, kv_heads = key_blocks.shape[1:3]
    groups = heads // kv_heads
    splits = triton.cdiv(min(max(lengths), window or _ALL), SPLIT)
    channels = max(16, triton.next_power_of_2(head_dim))
    attended = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    parts = new_parts(query, number * kv_heads, groups, splits)
    with device_of(query):
        _decode[(number * kv_heads, splits)](
            *(query, key_blocks, value_blocks, tables),
            torch.tensor(lengths, dtype=torch.int32, device=query.device),
            *(*parts, scale, window or _ALL),
            *(kv_heads, groups, head_dim, *query.stride()[:2]),
            *(*key_blocks.stride()[:3], *value_blocks.stride()[:3], *tables.stride()),
            BLOCK=block_size,
            SPLIT=SPLIT,
            ROWS=max(16, triton.next_power_of_2(groups)),
            KEYS=KEYS,
            CHANNELS=channels,
            num_warps=4,
            num_stages=2,
            enable_fp_fusion=True,
        )
        put_together(parts, attended, kv_heads, 1, (*attended.stride()[:2], 0))
    return attended


@triton.jit
def _decode(
    query, key, value, tables, lengths, partial, largest_of, total_of, scale, window,
    kv_heads, groups, head_dim, q_sequence, q_head,
    k_block, k_place, k_head, v_block, v_place, v_head, table_sequence, table_step,
    BLOCK: tl.constexpr, SPLIT: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = query.dtype.element_ty
    pair = tl.program_id(0).to(tl.int64)  # of sequence and key/value head
    sequence, kv_head = pair // kv_heads, pair % kv_heads
    length = tl.load(lengths + sequence)

    row = tl.arange(0, ROWS)
    channel = tl.arange(0, CHANNELS)
    within = (row[:, None] < groups) & (channel[None, :] < head_dim)
    spot = sequence * q_sequence + (kv_head * groups + row) * q_head
    q = tl.load(query + spot[:, None] + channel[None, :], mask=within, other=0.0)

    first = tl.maximum(length - window, 0) + tl.program_id(1) * SPLIT
    end = tl.minimum(first + SPLIT, length)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    attended = tl.zeros([ROWS, CHANNELS], tl.float32)
    for start in range(first, end, KEYS):
        place = start + tl.arange(0, KEYS)
        exists = place < length
        table = tables + sequence * table_sequence + place // BLOCK * table_step
        block = tl.load(table, mask=exists, other=0)
        there = exists[:, None] & (channel[None, :] < head_dim)
        k_spot = block * k_block + place % BLOCK * k_place + kv_head * k_head
        v_spot = block * v_block + place % BLOCK * v_place + kv_head * v_head
        k = tl.load(key + k_spot[:, None] + channel[None, :], mask=there, other=0.0)
        v = tl.load(value + v_spot[:, None] + channel[None, :], mask=there, other=0.0)
        scores = product(q, tl.trans(k), dtype) * scale
        seen = exists[None, :]
        largest, total, attended = attend_to_tile(
            scores, seen, seen, v, largest, total, attended, dtype
        )
    splits = tl.num_programs(1)
    slot = (pair * groups + row) * splits + tl.program_id(1)
    tl.store(largest_of + slot, largest, mask=row < groups)
    tl.store(total_of + slot, total, mask=row < groups)
    tl.store(partial + slot[:, None] * head_dim + channel[None, :], attended, mask=within)
