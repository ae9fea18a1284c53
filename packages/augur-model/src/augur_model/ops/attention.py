"""Grouped-query attention (Ainslie et al., 2023, arXiv:2305.13245) over cached keys and values.

All functions compute `softmax(q k^T * scale + mask) v`, with the same arguments:

- query: `[batch, num_heads, query_length, head_dim]`
- key, value: `[batch, num_kv_heads, key_length, head_dim]`; key/value head j serves the
  `num_heads / num_kv_heads` query heads from `j * num_heads / num_kv_heads` on
- mask: None, or a bool tensor that broadcasts to `[batch, num_heads, query_length, key_length]`,
  true where a query may look. None means causal: the queries are the last `query_length` of the
  `key_length` positions, and each looks at itself and what came before
- scale: what the scores are multiplied by

and return `[batch, num_heads, query_length, head_dim]` in the dtype of `query`.
"""

import torch
from torch import Tensor
from torch.nn import functional


def causal_mask(query_length: int, key_length: int, device: torch.device) -> Tensor:
    """Who may look where, when the queries are the last `query_length` of `key_length` positions.

    Returns:
        `[query_length, key_length]`, bool: true where the key is not later than the query.
    """
    past_length = key_length - query_length
    query_positions = torch.arange(past_length, key_length, device=device)
    key_positions = torch.arange(key_length, device=device)
    return key_positions <= query_positions[:, None]


def repeat_kv(heads: Tensor, groups: int) -> Tensor:
    """Give each query head its key/value head: `[b, kv, n, d] -> [b, kv * groups, n, d]`.

    Neighbours share: with two groups the order is 0, 0, 1, 1, not 0, 1, 0, 1.
    """
    return heads if groups == 1 else heads.repeat_interleave(groups, dim=1)


def eager_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """The reference: the formula written out, bit-equal to transformers' eager attention on CPU.

    Rounding order: scores in the input dtype, times scale, plus the mask (0, or the dtype's
    lowest finite number where hidden); softmax in float32; back to the input dtype; times values.
    """
    groups = query.shape[1] // key.shape[1]
    # Contiguous, as transformers' growing cache is: a part of a larger cache may be multiplied by
    # another kernel, with other last bits (float16 on CPUs that compute in it). Repeated they are.
    key, value = (repeat_kv(heads, groups).contiguous() for heads in (key, value))
    scores = torch.matmul(query, key.transpose(2, 3)) * scale
    if mask is None and query.shape[2] > 1:
        mask = causal_mask(query.shape[2], key.shape[2], query.device)
    if mask is not None:
        hidden = torch.finfo(scores.dtype).min
        scores = scores + torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, hidden)
    weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value)


def eager_f32_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """The formula written out in float32 whatever the dtype, rounded once at the end.

    For float16, whose largest number is 65504: Qwen's queries and keys can be so large that their
    products go beyond it, and `eager_attention` then gives NaN. Here the result is finite wherever
    the inputs are, since it is a mean of the values. In float32 it is `eager_attention` itself;
    in half precision it is the more exact of the two, and not equal to transformers' bits.
    """
    in_float32 = (query.float(), key.float(), value.float())
    return eager_attention(*in_float32, mask, scale).to(query.dtype)


def sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """The same through `torch.nn.functional.scaled_dot_product_attention`.

    Fused kernels never hold the scores of a whole prompt. Their sums run in another order, so the
    result is close to `eager_attention`, not equal.
    """
    query_length, key_length = query.shape[2], key.shape[2]
    if mask is None and 1 < query_length < key_length:
        # is_causal aligns queries with the first keys; on a filled cache they are the last.
        mask = causal_mask(query_length, key_length, query.device)
    groups = query.shape[1] // key.shape[1]
    if mask is not None and groups > 1:
        # With a mask, CUDA has no fused kernel that shares key/value heads.
        key, value, groups = repeat_kv(key, groups), repeat_kv(value, groups), 1
    return functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None and query_length > 1,
        scale=scale,
        enable_gqa=groups > 1,
    )
