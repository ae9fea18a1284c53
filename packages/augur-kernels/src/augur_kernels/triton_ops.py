"""The Triton kernels as a table of ops, and all of them by name."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from augur_kernels.triton_add_rms_norm import add_rms_norm
from augur_kernels.triton_attention import attention
from augur_kernels.triton_int4_linear import int4_linear
from augur_kernels.triton_int8_linear import int8_linear
from augur_kernels.triton_paged_attention import paged_attention
from augur_kernels.triton_rms_norm import rms_norm
from augur_kernels.triton_rope import apply_rope
from augur_kernels.triton_swiglu import swiglu
from augur_model import EAGER

TRITON = replace(
    EAGER,
    rms_norm=rms_norm,
    apply_rope=apply_rope,
    attention=attention,
    paged_attention=paged_attention,
    swiglu=swiglu,
)
"""Every op by Triton but the float matrix products, which vendors' libraries do best."""

TRITON_KERNELS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "rms_norm": rms_norm,
        "add_rms_norm": add_rms_norm,
        "apply_rope": apply_rope,
        "swiglu": swiglu,
        "attention": attention,
        "paged_attention": paged_attention,
        "int8_linear": int8_linear,
        "int4_linear": int4_linear,
    }
)
"""All kernels by the ops that they replace, also those that `Ops` has no place for."""
