"""Matrix products of few rows on a CPU."""

import torch
from torch import Tensor
from torch.nn import functional

_ROWS = range(2, 129)
"""A lone row is a matrix-vector product, and with many rows nothing is gained."""
_BLOCK = 64
"""Outputs of a block: the widths of all Qwen models are multiples of it."""


def blocked_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`torch.nn.functional.linear`, the weight cut into blocks of 64 outputs.

    Matrix libraries share out a product among threads, and pack its operands, in ways made for
    many rows. A batch of small products, one for each block, goes through the weight once, in
    pieces that the caches hold: the rung `blocked` of the bench says what that gains. Anything but
    a few rows in float32 on a CPU is left to `linear`.

    Args:
        x: `[..., in]`.
        weight: `[out, in]`.
        bias: `[out]` or None.

    Returns:
        `[..., out]`, the sums perhaps in another order than `linear`'s.
    """
    outputs, width = weight.shape
    rows = x.numel() // width
    fits = weight.is_contiguous() and outputs % _BLOCK == 0 and rows in _ROWS
    if not fits or x.dtype != torch.float32 or x.device.type != "cpu":
        return functional.linear(x, weight, bias)
    blocks = weight.view(-1, _BLOCK, width)
    flat = x.reshape(rows, width).expand(len(blocks), rows, width)
    product = torch.bmm(flat, blocks.transpose(1, 2))  # [blocks, rows, 64]
    output = product.transpose(0, 1).reshape(*x.shape[:-1], outputs)
    return output if bias is None else output + bias
