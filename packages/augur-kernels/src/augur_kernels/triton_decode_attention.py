"""Attention of few queries over many keys, split over the keys ("flash-decoding").

One query fills no GPU, so that each program takes SPLIT keys of one key/value head of one row, for
all query heads that share it: keys and values are read once. Tiles: q `[ROWS, CHANNELS]`, ROWS
being `groups * query_length` up to 16 or more, k and v `[KEYS, CHANNELS]`. A second kernel puts the
splits together: with each split's largest score m, sum l and unnormalised values a, `sum(exp(m -
max m) a) / sum(exp(m - max m) l)`. Rounding: see `triton_online_softmax`.

Splits are cut by position alone, so a row's result does not depend on what else is in the batch.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.triton_arithmetic import narrowed, product
from augur_kernels.triton_inputs import device_of
from augur_kernels.triton_online_softmax import attend_to_tile

SPLIT = 128
"""Keys of a program: two tiles, so that the next is loaded while one is computed with."""
KEYS = 64
SPLITS = 16
"""Splits that are put together at once."""


def decode_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """As `prefill_attention`, for queries that with the heads that share keys fit in one tile."""
    batch, heads, query_length, head_dim = query.shape
    kv_heads, key_length = key.shape[1:3]
    rows = heads // kv_heads * query_length
    splits = triton.cdiv(key_length, SPLIT)
    channels = max(16, triton.next_power_of_2(head_dim))
    shape = (batch, query_length, heads, head_dim)
    attended = torch.empty(shape, dtype=query.dtype, device=query.device).transpose(1, 2)
    parts = new_parts(query, batch * kv_heads, rows, splits)
    with device_of(query):
        _decode[(batch * kv_heads, splits)](
            *(query, key, value, mask, *parts, scale),
            *(kv_heads, rows, query_length, key_length, head_dim),
            *(*query.stride()[:3], *key.stride()[:3], *value.stride()[:3]),
            *((0, 0, 0, 0) if mask is None else mask.stride()),
            SPLIT=SPLIT,
            ROWS=max(16, triton.next_power_of_2(rows)),
            KEYS=KEYS,
            CHANNELS=channels,
            num_warps=4,
            num_stages=2,
            enable_fp_fusion=True,
        )
        put_together(parts, attended, kv_heads, query_length, attended.stride()[:3])
    return attended


Parts = tuple[Tensor, Tensor, Tensor]
"""Of each split of each row of queries, in float32: the unnormalised values `[pairs, rows, splits,
head_dim]`, the largest score and the sum `[pairs, rows, splits]`. A pair is a sequence and a
key/value head."""


def new_parts(query: Tensor, pairs: int, rows: int, splits: int) -> Parts:
    """Memory for them."""
    largest, total = (query.new_empty((pairs, rows, splits), dtype=torch.float32) for _ in range(2))
    values = query.new_empty((pairs, rows, splits, query.shape[-1]), dtype=torch.float32)
    return values, largest, total


def put_together(
    parts: Parts, attended: Tensor, kv_heads: int, query_length: int, strides: tuple[int, ...]
) -> None:
    """The splits to their one result, written into `attended`: strides of sequence, head, query."""
    pairs, rows, splits, head_dim = parts[0].shape
    _put_together[(pairs * rows,)](
        *(*parts, attended),
        *(kv_heads, rows, query_length, splits, head_dim, *strides),
        SPLITS=SPLITS,
        CHANNELS=max(16, triton.next_power_of_2(head_dim)),
        enable_fp_fusion=True,
    )


@triton.jit
def _decode(
    query, key, value, mask, partial, largest_of, total_of, scale,
    kv_heads, rows, query_length, key_length, head_dim,
    q_batch, q_head, q_step, k_batch, k_head, k_step, v_batch, v_head, v_step,
    mask_batch, mask_head, mask_query, mask_key,
    SPLIT: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = query.dtype.element_ty
    pair = tl.program_id(0).to(tl.int64)  # of row of the batch and key/value head
    batch, kv_head = pair // kv_heads, pair % kv_heads
    key += batch * k_batch + kv_head * k_head
    value += batch * v_batch + kv_head * v_head

    row = tl.arange(0, ROWS)
    head = kv_head * (rows // query_length) + row // query_length
    position = row % query_length
    channel = tl.arange(0, CHANNELS)
    within = (row[:, None] < rows) & (channel[None, :] < head_dim)
    spot = batch * q_batch + head * q_head + position * q_step
    q = tl.load(query + spot[:, None] + channel[None, :], mask=within, other=0.0)
    last_seen = key_length - query_length + position

    first = tl.program_id(1) * SPLIT
    end = tl.minimum(first + SPLIT, key_length)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    attended = tl.zeros([ROWS, CHANNELS], tl.float32)
    for start in range(first, end, KEYS):
        place = start + tl.arange(0, KEYS)
        there = (place[:, None] < key_length) & (channel[None, :] < head_dim)
        k = tl.load(key + place[:, None] * k_step + channel[None, :], mask=there, other=0.0)
        v = tl.load(value + place[:, None] * v_step + channel[None, :], mask=there, other=0.0)
        if mask is None:
            visible = place[None, :] <= last_seen[:, None]
        else:
            offset = batch * mask_batch + head * mask_head + position * mask_query
            inside = (row[:, None] < rows) & (place[None, :] < key_length)
            seen = tl.load(mask + offset[:, None] + place[None, :] * mask_key, mask=inside, other=0)
            visible = seen != 0
        scores = product(q, tl.trans(k), dtype) * scale
        largest, total, attended = attend_to_tile(
            scores, visible, place[None, :] < key_length, v, largest, total, attended, dtype
        )
    splits = tl.num_programs(1)
    slot = (pair * rows + row) * splits + tl.program_id(1)
    tl.store(largest_of + slot, largest, mask=row < rows)
    tl.store(total_of + slot, total, mask=row < rows)
    tl.store(partial + slot[:, None] * head_dim + channel[None, :], attended, mask=within)


@triton.jit
def _put_together(
    partial, largest_of, total_of, out, kv_heads, rows, query_length, splits, head_dim,
    out_batch, out_head, out_step, SPLITS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(0).to(tl.int64)
    pair, row = slot // rows, slot % rows
    channel = tl.arange(0, CHANNELS)
    largest = float("-inf")
    total = 0.0
    attended = tl.zeros([CHANNELS], tl.float32)
    for start in range(0, splits, SPLITS):
        split = start + tl.arange(0, SPLITS)
        place = slot * splits + split
        largest_here = tl.load(largest_of + place, mask=split < splits, other=float("-inf"))
        total_here = tl.load(total_of + place, mask=split < splits, other=0.0)
        within = (split[:, None] < splits) & (channel[None, :] < head_dim)
        values = tl.load(
            partial + place[:, None] * head_dim + channel[None, :], mask=within, other=0.0
        )
        new_largest = tl.maximum(largest, tl.max(largest_here, axis=0))
        share = tl.exp(largest_here - new_largest)
        kept = tl.exp(largest - new_largest)
        total = total * kept + tl.sum(share * total_here, axis=0)
        attended = attended * kept + tl.sum(share[:, None] * values, axis=0)
        largest = new_largest
    head = (pair % kv_heads) * (rows // query_length) + row // query_length
    target = out + (pair // kv_heads) * out_batch + head * out_head
    dtype: tl.constexpr = out.dtype.element_ty
    result = narrowed(attended / total, dtype)
    tl.store(target + (row % query_length) * out_step + channel, result, mask=channel < head_dim)
