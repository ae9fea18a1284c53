"""What sets the families of one decoder apart: one record for each, and nothing of it elsewhere.

Another family of the same network is another record: a `model_type`, what it has, and what its
`config.json` may say that is not computed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Family:
    """One family of models.

    Attributes:
        names: the models as people call them.
        attention_bias: whether q, k and v have biases (o never has one).
        qk_norm: whether each head of q and k is normalised before the rotation.
        names_head_dim: whether `config.json` must say head_dim; else it follows, where it is left
            out, from hidden_size and num_attention_heads.
        neutral: keys of `config.json` that ask for what this family does not have, each with the
            value under which it asks for nothing; another one is refused. They come on top of
            those of every family, in `unsupported`.
    """

    names: tuple[str, ...]
    attention_bias: bool
    qk_norm: bool
    names_head_dim: bool = False
    neutral: Mapping[str, Any] = field(default_factory=dict)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "qwen2": Family(("Qwen2", "Qwen2.5"), attention_bias=True, qk_norm=False),
        "qwen3": Family(
            ("Qwen3",),
            attention_bias=False,
            qk_norm=True,
            names_head_dim=True,
            neutral={"attention_bias": False},
        ),
    }
)
"""By the `model_type` of `config.json`."""

SUPPORTED_MODEL_TYPES = tuple(FAMILIES)
