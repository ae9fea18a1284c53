"""Token ids to logits: Qwen's config, ops, layers and decoder."""

from augur_model import ops
from augur_model.cache import KVCache
from augur_model.config import QwenConfig
from augur_model.errors import ConfigError, ModelError, ModelInputError, UnsupportedModelError
from augur_model.family import FAMILIES, SUPPORTED_MODEL_TYPES, Family
from augur_model.layers import MLP, Attention, DecoderLayer, Linear, RMSNorm, RotaryEmbedding
from augur_model.model import QwenDecoder, QwenForCausalLM
from augur_model.ops import EAGER, EAGER_F32, OPS_BY_ATTENTION, SDPA, Ops
from augur_model.replacing import replace_linears
from augur_model.rope_config import Yarn

__all__ = [
    "EAGER",
    "EAGER_F32",
    "FAMILIES",
    "MLP",
    "OPS_BY_ATTENTION",
    "SDPA",
    "SUPPORTED_MODEL_TYPES",
    "Attention",
    "ConfigError",
    "DecoderLayer",
    "Family",
    "KVCache",
    "Linear",
    "ModelError",
    "ModelInputError",
    "Ops",
    "QwenConfig",
    "QwenDecoder",
    "QwenForCausalLM",
    "RMSNorm",
    "RotaryEmbedding",
    "UnsupportedModelError",
    "Yarn",
    "ops",
    "replace_linears",
]
