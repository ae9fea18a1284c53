"""Rotary position embedding (Su et al., 2021, arXiv:2104.09864), half-split layout."""

import math

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


def yarn_inverse_frequencies(
    head_dim: int,
    rope_theta: float,
    *,
    factor: float,
    original_length: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Tensor:
    """YaRN's frequencies (Peng et al., 2023, arXiv:2309.00071, section 3.2).

    Dimensions that turn at least `beta_fast` times over the original length keep their frequency;
    those that turn at most `beta_slow` times are divided by `factor`; between the two the share of
    each grows linearly with the dimension.

    Returns:
        `[head_dim / 2]`, float32, on the CPU.
    """

    def dimension_that_turns(times: float) -> float:
        wavelengths = original_length / (times * 2 * math.pi)
        return head_dim * math.log(wavelengths) / (2 * math.log(rope_theta))

    low, high = dimension_that_turns(beta_fast), dimension_that_turns(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001  # a ramp needs a width

    dimensions = torch.arange(head_dim // 2, dtype=torch.float32, device="cpu")
    kept = 1 - ((dimensions - low) / (high - low)).clamp(0, 1)
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    periods = rope_theta**exponents
    return 1.0 / (factor * periods) * (1 - kept) + 1.0 / periods * kept


def rope_tables(
    positions: Tensor,
    inverse_frequencies: Tensor,
    dtype: torch.dtype,
    attention_factor: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position's angle with every frequency.

    Angles are float32 whatever the model's dtype: at position 4095, bfloat16 could not tell
    neighbouring positions apart. Only the finished tables are rounded to `dtype`.

    Args:
        positions: `[batch, length]` or `[1, length]`, integer.
        inverse_frequencies: `[head_dim / 2]`, float32, on the device of `positions`.
        dtype: dtype of the queries and keys.
        attention_factor: what both tables are multiplied by before rounding (YaRN).

    Returns:
        cos and sin, each `[batch, length, head_dim]`; the two halves of the last dimension are
        equal, since dimension i is rotated together with i + head_dim/2.
    """
    angles = positions[..., None].to(torch.float32) * inverse_frequencies
    angles = torch.cat((angles, angles), dim=-1)
    cos, sin = angles.cos() * attention_factor, angles.sin() * attention_factor
    return cos.to(dtype), sin.to(dtype)


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
