"""Pure functions, one formula each: what a kernel is checked against."""

from augur_model.ops.attention import (
    causal_mask,
    eager_attention,
    eager_f32_attention,
    repeat_kv,
    sdpa_attention,
)
from augur_model.ops.linear import blocked_linear
from augur_model.ops.norm import rms_norm
from augur_model.ops.paged_attention import (
    Pages,
    fused_paged_attention,
    gathered_paged_attention,
    singles_apart,
)
from augur_model.ops.rope import (
    apply_rope,
    inverse_frequencies,
    rope_tables,
    rotate_half,
    yarn_inverse_frequencies,
)
from augur_model.ops.swiglu import swiglu
from augur_model.ops.table import EAGER, EAGER_F32, OPS_BY_ATTENTION, SDPA, Ops
from augur_model.ops.window import within_window

__all__ = [
    "EAGER",
    "EAGER_F32",
    "OPS_BY_ATTENTION",
    "SDPA",
    "Ops",
    "Pages",
    "apply_rope",
    "blocked_linear",
    "causal_mask",
    "eager_attention",
    "eager_f32_attention",
    "fused_paged_attention",
    "gathered_paged_attention",
    "inverse_frequencies",
    "repeat_kv",
    "rms_norm",
    "rope_tables",
    "rotate_half",
    "sdpa_attention",
    "singles_apart",
    "swiglu",
    "within_window",
    "yarn_inverse_frequencies",
]
