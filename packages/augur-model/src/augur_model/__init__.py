"""Token ids to logits: Qwen's config, ops, layers and decoder."""

from augur_model import ops
from augur_model.cache import KVCache
from augur_model.config import SUPPORTED_MODEL_TYPES, QwenConfig
from augur_model.errors import ConfigError, ModelError, ModelInputError, UnsupportedModelError
from augur_model.layers import MLP, Attention, DecoderLayer, Linear, RMSNorm, RotaryEmbedding
from augur_model.model import QwenDecoder, QwenForCausalLM
from augur_model.ops import EAGER, EAGER_F32, OPS_BY_ATTENTION, SDPA, Ops
from augur_model.rope_config import Yarn

__all__ = [
    "EAGER",
    "EAGER_F32",
    "MLP",
    "OPS_BY_ATTENTION",
    "SDPA",
    "SUPPORTED_MODEL_TYPES",
    "Attention",
    "ConfigError",
    "DecoderLayer",
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
]
