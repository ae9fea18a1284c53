"""top_p with a rule for equal logits, and without the wait for a sort of floats."""

import math

import torch
from torch import Tensor


def apply_top_p_stably(logits: Tensor, top_p: float) -> Tensor:
    """As `apply_top_p`, but of equal logits at the cut the lowest ids stay.

    Which of them stay is left open there, and differs from one kind of CPU to another; a narrow
    dtype has many equal logits. One seed shall choose the same tokens everywhere, and where one
    token is left it shall be greedy's, which is the lowest.

    Args:
        logits: `[batch, vocab_size]`, float32, without NaN.
        top_p: from 0 to 1.
    """
    order = ascending_order(logits)
    removed = logits.gather(-1, order).softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
    removed[..., -1] = False
    return logits.masked_fill(removed.scatter(-1, order, removed), -math.inf)


def ascending_order(logits: Tensor) -> Tensor:
    """Ids by their logits, ascending, the lowest of equals last: `[batch, n]`, int64.

    `logits` are `[batch, n]`, float32, without NaN; it is a stable sort of their mirror image. On a
    CPU PyTorch sorts the integers of one row by radix, ten times faster than floats. Read as
    an integer, a float of IEEE 754 keeps its place among the positive; the bits below the sign are
    turned around for the negative.
    """
    bits = (logits + 0.0).view(torch.int32)  # the sum makes -0.0, equal to 0.0, the same bits
    keys = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    mirrored = torch.stack([row.argsort(stable=True) for row in keys.flip(-1)])
    return keys.shape[-1] - 1 - mirrored
