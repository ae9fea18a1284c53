"""Attention of many queries: `softmax(q k^T * scale + mask) v`, never holding all scores (Dao et
al., 2022, arXiv:2205.14135).

A program has one query head of one row of the batch and a tile of QUERIES; it walks over tiles of
KEYS up to the last key that one of its queries may see. Tiles: q `[QUERIES, CHANNELS]`, k and v
`[KEYS, CHANNELS]`, CHANNELS being head_dim and zeros up to a power of two. Head h reads the
key/value head `h // groups`. Rounding: see `triton_online_softmax`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from augur_kernels.triton_arithmetic import narrowed, product
from augur_kernels.triton_inputs import device_of
from augur_kernels.triton_online_softmax import attend_to_tile


def prefill_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """As `augur_model.ops.eager_attention`; called by `triton_attention`, which checks.

    Args:
        query: `[batch, num_heads, query_length, head_dim]`, its channels together in memory.
        key: `[batch, num_kv_heads, key_length, head_dim]`, likewise.
        value: as `key`.
        mask: None for causal, or bytes `[batch, num_heads, query_length, key_length]`, not zero
            where a query may look; any strides.
        scale: what the scores are multiplied by.

    Returns:
        `[batch, num_heads, query_length, head_dim]`, in memory `[batch, query_length, num_heads,
        head_dim]`, as the projection behind it reads it.
    """
    batch, heads, query_length, head_dim = query.shape
    shape = (batch, query_length, heads, head_dim)
    attended = torch.empty(shape, dtype=query.dtype, device=query.device).transpose(1, 2)
    tile = 32 if query.dtype == torch.float32 else 64  # twice the bytes in shared memory
    with device_of(query):
        _prefill[(batch * heads, triton.cdiv(query_length, tile))](
            *(query, key, value, mask, attended, scale),
            *(heads, heads // key.shape[1], query_length, key.shape[2], head_dim),
            *(*query.stride()[:3], *key.stride()[:3], *value.stride()[:3]),
            *((0, 0, 0, 0) if mask is None else mask.stride()),
            *attended.stride()[:3],
            QUERIES=tile,
            KEYS=tile,
            CHANNELS=max(16, triton.next_power_of_2(head_dim)),
            num_warps=4,
            num_stages=2,
            enable_fp_fusion=True,
        )
    return attended


@triton.jit
def _prefill(
    query, key, value, mask, out, scale, heads, groups, query_length, key_length, head_dim,
    q_batch, q_head, q_step, k_batch, k_head, k_step, v_batch, v_head, v_step,
    mask_batch, mask_head, mask_query, mask_key, out_batch, out_head, out_step,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = query.dtype.element_ty
    batch = (tl.program_id(0) // heads).to(tl.int64)
    head = tl.program_id(0) % heads
    query += batch * q_batch + head * q_head
    key += batch * k_batch + (head // groups) * k_head
    value += batch * v_batch + (head // groups) * v_head

    row = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    channel = tl.arange(0, CHANNELS)
    within = (row[:, None] < query_length) & (channel[None, :] < head_dim)
    q = tl.load(query + row[:, None] * q_step + channel[None, :], mask=within, other=0.0)
    last_seen = key_length - query_length + row  # the queries are the last of the keys

    end = key_length
    if mask is None:
        end = tl.minimum(key_length, key_length - query_length + (tl.program_id(1) + 1) * QUERIES)
    else:
        mask += batch * mask_batch + head * mask_head
    largest = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    attended = tl.zeros([QUERIES, CHANNELS], tl.float32)
    for start in range(0, end, KEYS):
        place = start + tl.arange(0, KEYS)
        there = (place[:, None] < key_length) & (channel[None, :] < head_dim)
        k = tl.load(key + place[:, None] * k_step + channel[None, :], mask=there, other=0.0)
        v = tl.load(value + place[:, None] * v_step + channel[None, :], mask=there, other=0.0)
        if mask is None:
            visible = place[None, :] <= last_seen[:, None]
        else:
            spot = row[:, None] * mask_query + place[None, :] * mask_key
            inside = (row[:, None] < query_length) & (place[None, :] < key_length)
            visible = tl.load(mask + spot, mask=inside, other=0) != 0
        scores = product(q, tl.trans(k), dtype) * scale
        largest, total, attended = attend_to_tile(
            scores, visible, place[None, :] < key_length, v, largest, total, attended, dtype
        )
    target = out + batch * out_batch + head * out_head + row[:, None] * out_step + channel[None, :]
    tl.store(target, narrowed(attended / total[:, None], dtype), mask=within)
