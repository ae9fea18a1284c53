"""The formats of few-bit weights, defined in plain torch: what the kernels read.

A row of a matrix is cut into groups of 32 neighbours, and each group has one scale, a float32. The
values are symmetric around zero: there is no least value to add.
"""

import torch
from torch import Tensor

GROUP = 32
"""Neighbouring weights of a row that share a scale."""


def dequantise_int8(codes: Tensor, scales: Tensor) -> Tensor:
    """`codes * scale of the group`.

    Args:
        codes: `[out, in]`, int8.
        scales: `[out, in / 32]`, or `[out]` where a whole row shares one; float32.

    Returns:
        `[out, in]`, dtype of `scales`.
    """
    if scales.dim() == 1:
        return codes * scales[:, None]
    return codes * scales.repeat_interleave(GROUP, dim=1)


def dequantise_int4(codes: Tensor, scales: Tensor) -> Tensor:
    """`(nibble - 8) * scale of the group`.

    Args:
        codes: `[out, in / 2]`, uint8: two neighbours each, the first in the low four bits.
        scales: `[out, in / 32]`, float32.

    Returns:
        `[out, in]`, dtype of `scales`.
    """
    nibbles = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(1)
    return (nibbles.to(scales.dtype) - 8) * scales.repeat_interleave(GROUP, dim=1)
