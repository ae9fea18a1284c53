"""Sliding-window attention: a query sees the last `window` tokens, itself included."""

from typing import TYPE_CHECKING

from torch import Tensor

from augur_model.ops.attention import causal_mask

if TYPE_CHECKING:  # the table holds an op that is made of these functions
    from augur_model.ops.table import Ops


def attention_within_window(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    window: int | None,
    ops: "Ops",
) -> Tensor:
    """`ops.attention` over what the window leaves; all of it where `window` is None."""
    if window is not None:
        key, value, mask = within_window(key, value, mask, query.shape[2], window)
    return ops.attention(query, key, value, mask, scale)


def within_window(
    key: Tensor, value: Tensor, mask: Tensor | None, query_length: int, window: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Leave out what no query sees, and mask what only some queries see.

    Keys are cut off, not only masked: sums over fewer terms are what transformers' sliding cache
    computes, and they round differently from sums with zeros in them.

    Args:
        key: `[batch, num_kv_heads, key_length, head_dim]`.
        value: as `key`.
        mask: as for `eager_attention`; combined with the window.
        query_length: the queries are the last so many of the `key_length` positions.
        window: tokens that a query sees, itself included.

    Returns:
        keys, values and mask for `eager_attention`, of `min(key_length, window - 1 +
        query_length)` positions. The mask stays None where causality alone decides.
    """
    visible = min(key.shape[2], window - 1 + query_length)
    key, value = key[:, :, -visible:], value[:, :, -visible:]
    if mask is not None and mask.shape[-1] > 1:
        mask = mask[..., -visible:]
    if visible <= window:
        return key, value, mask
    recent = causal_mask(query_length, visible, key.device).triu(
        visible - query_length - window + 1
    )
    if mask is None:
        return key, value, recent
    return key, value, mask & recent
