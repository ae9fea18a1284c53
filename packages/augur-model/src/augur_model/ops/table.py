"""The one place where an implementation of an op is chosen.

A kernel is tried by handing the model another table; no module is patched:

    model.ops = dataclasses.replace(EAGER, rms_norm=my_rms_norm)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from torch import Tensor
from torch.nn import functional

from augur_model.ops.attention import eager_attention, eager_f32_attention, sdpa_attention
from augur_model.ops.linear import blocked_linear
from augur_model.ops.norm import rms_norm
from augur_model.ops.paged_attention import (
    PagedAttention,
    fused_paged_attention,
    gathered_paged_attention,
)
from augur_model.ops.rope import apply_rope
from augur_model.ops.swiglu import swiglu


@dataclass(frozen=True)
class Ops:
    """What the layers call. Each entry has the arguments and the meaning of the function named.

    Attributes:
        linear: `torch.nn.functional.linear(x, weight, bias or None)`.
        rms_norm: `augur_model.ops.rms_norm`.
        apply_rope: `augur_model.ops.apply_rope`.
        attention: `augur_model.ops.eager_attention`.
        swiglu: `augur_model.ops.swiglu`.
        paged_attention: `augur_model.ops.gathered_paged_attention`, which calls `attention`; asked
            for by caches whose keys lie in blocks.
    """

    linear: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    apply_rope: Callable[[Tensor, Tensor, Tensor], Tensor]
    attention: Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]
    swiglu: Callable[[Tensor, Tensor], Tensor]
    paged_attention: PagedAttention = gathered_paged_attention


EAGER = Ops(
    linear=functional.linear,
    rms_norm=rms_norm,
    apply_rope=apply_rope,
    attention=eager_attention,
    swiglu=swiglu,
)
"""The reference: plain PyTorch, bit-exact with transformers' eager modules on CPU."""

EAGER_F32 = replace(EAGER, attention=eager_f32_attention)
"""Attention in float32, which does not overflow in float16; all else as the reference."""

SDPA = replace(
    EAGER,
    linear=blocked_linear,
    attention=sdpa_attention,
    paged_attention=fused_paged_attention,
)
"""Fused attention, and products of few rows in blocks; all else as the reference."""

OPS_BY_ATTENTION: Mapping[str, Ops] = MappingProxyType(
    {"eager": EAGER, "eager-f32": EAGER_F32, "sdpa": SDPA}
)
"""The tables under the names that users choose them by."""
