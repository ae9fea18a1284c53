"""Grouped-query attention: which of the two kernels, and what may be asked of them."""

import torch
from torch import Tensor

from augur_kernels.errors import KernelInputError
from augur_kernels.triton_decode_attention import decode_attention
from augur_kernels.triton_inputs import check_inputs, check_shape, with_channels_together
from augur_kernels.triton_prefill_attention import prefill_attention

DECODE_ROWS = 16
"""Query heads that share a key/value head, times queries, up to which the keys are split: they are
one tile of a matrix unit."""
WIDEST_HEAD = 256


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """As `augur_model.ops.eager_attention`: prefill, chunks on a filled cache, decode, windows.

    Strides may be any; what lies channel by channel is copied.

    Raises:
        KernelError: Triton does not run here, or the tensors do not fit.
    """
    check_inputs("attention", query=query, key=key, value=value)
    batch, heads, query_length, head_dim = query.shape
    kv_heads, key_length = key.shape[1:3]
    check_shape("attention", "key", key, (batch, kv_heads, key_length, head_dim))
    check_shape("attention", "value", value, (batch, kv_heads, key_length, head_dim))
    if heads % kv_heads:
        raise KernelInputError(
            f"attention: {heads} query heads do not share {kv_heads} key/value heads evenly"
        )
    if head_dim > WIDEST_HEAD:
        raise KernelInputError(
            f"attention: heads have {head_dim} channels, expected at most {WIDEST_HEAD}"
        )
    if key_length == 0 or (mask is None and query_length > key_length):
        raise KernelInputError(
            f"attention: {query_length} queries are the last of the keys, and there are "
            f"{key_length} of those"
        )
    if query.numel() == 0:
        return torch.empty_like(query)
    if mask is not None:
        mask = _as_bytes(mask, query, (batch, heads, query_length, key_length))
    query, key, value = (with_channels_together(tensor) for tensor in (query, key, value))
    few = heads // kv_heads * query_length <= DECODE_ROWS
    return (decode_attention if few else prefill_attention)(query, key, value, mask, scale)


def _as_bytes(mask: Tensor, query: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The mask as bytes of the whole shape, without a copy."""
    if mask.dtype != torch.bool or mask.device != query.device:
        raise KernelInputError(
            f"attention: mask is {mask.dtype} on {mask.device}, expected torch.bool on "
            f"{query.device}"
        )
    try:
        return mask.view(torch.uint8).expand(shape)
    except RuntimeError as error:
        raise KernelInputError(
            f"attention: mask has the shape {list(mask.shape)}, expected one that broadcasts to "
            f"{list(shape)}"
        ) from error
