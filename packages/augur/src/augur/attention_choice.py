"""Which attention path, unless the user says."""

from typing import Literal

import torch

AttentionName = Literal["eager", "eager-f32", "sdpa"]

ATTENTION_HELP = (
    "eager is the bit-exact reference; eager-f32 computes attention in float32, where scores that "
    "float16 cannot hold do not overflow; sdpa is fused and close to both."
)
ATTENTION_DEFAULT = "eager, and for float16 eager-f32"


def choose_attention(name: AttentionName | None, dtype: torch.dtype) -> AttentionName:
    """The path of that name; without one, the reference that is finite in this dtype."""
    if name is not None:
        return name
    return "eager-f32" if dtype == torch.float16 else "eager"
