"""Rotary position embedding (Su et al., 2021, arXiv:2104.09864), half-split layout."""

import torch
from torch import Tensor


def inverse_frequencies(head_dim: int, rope_theta: float) -> Tensor:
    """`theta ** (-2i / head_dim)` for i in 0 .. head_dim/2 - 1.

    Always computed on the CPU in float32: the power function of another device may round
    differently, and inside `torch.device("meta")` there would be no values at all.

    Returns:
        `[head_dim / 2]`, float32, on the CPU.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    return 1.0 / (rope_theta**exponents)


def rope_tables(
    positions: Tensor, inverse_frequencies: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angle with every frequency.

    Angles are float32 whatever the model's dtype: at position 4095, bfloat16 could not tell
    neighbouring positions apart. Only the finished tables are rounded to `dtype`.

    Args:
        positions: `[batch, length]` or `[1, length]`, integer.
        inverse_frequencies: `[head_dim / 2]`, float32, on the device of `positions`.
        dtype: dtype of the queries and keys.

    Returns:
        cos and sin, each `[batch, length, head_dim]`; the two halves of the last dimension are
        equal, since dimension i is rotated together with i + head_dim/2.
    """
    angles = positions[..., None].to(torch.float32) * inverse_frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def apply_rope(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each head: `x * cos + rotate_half(x) * sin`, in the dtype of `x`.

    Args:
        heads: queries or keys, `[batch, num_heads, length, head_dim]`.
        cos: `[batch or 1, length, head_dim]`, dtype of `heads`.
        sin: as `cos`.

    Returns:
        `[batch, num_heads, length, head_dim]`.
    """
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return heads * cos + rotate_half(heads) * sin


def rotate_half(heads: Tensor) -> Tensor:
    """`[x1, x2] -> [-x2, x1]` for the two halves of the last dimension."""
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
