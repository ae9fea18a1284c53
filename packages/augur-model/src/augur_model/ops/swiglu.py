"""The gated activation of Qwen's MLP (Shazeer, 2020, arXiv:2002.05202)."""

from torch import Tensor
from torch.nn import functional


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """`silu(gate) * up`, elementwise, each step rounded to the input dtype.

    Args:
        gate: `[..., intermediate]`.
        up: `[..., intermediate]`, dtype of `gate`.

    Returns:
        `[..., intermediate]`.
    """
    return functional.silu(gate) * up
