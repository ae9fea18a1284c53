"""Root mean square normalisation (Zhang and Sennrich, 2019, arXiv:1910.07467)."""

import torch
from torch import Tensor


def rms_norm(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`weight * x / sqrt(mean(x^2) + eps)` over the last dimension.

    Rounding order: `x` to float32; mean of squares; `x * rsqrt(mean + eps)`; back to the dtype of
    `x`; only then times the weight, in that dtype. Multiplying before rounding back gives other
    bits in half precision.

    Args:
        hidden_states: `[..., width]`, floating.
        weight: `[width]`, dtype of `hidden_states`.
        eps: keeps the root away from zero.

    Returns:
        `[..., width]`, dtype of `hidden_states`.
    """
    in_float32 = hidden_states.to(torch.float32)
    mean_square = in_float32.pow(2).mean(-1, keepdim=True)
    normalised = in_float32 * torch.rsqrt(mean_square + eps)
    return weight * normalised.to(hidden_states.dtype)
