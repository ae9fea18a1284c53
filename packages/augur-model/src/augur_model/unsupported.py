"""What a `config.json` may ask for and this package does not compute, each refused by its name."""

from collections.abc import Mapping
from typing import Any

from augur_model.config_reader import ConfigReader
from augur_model.errors import UnsupportedModelError
from augur_model.family import Family

# Settings of other decoders that change what is computed and bring no tensor with them, so that
# nothing else would tell that they were passed over. With each the value under which it does
# nothing; None does nothing in any.
_NEUTRAL: dict[str, Any] = {
    "alibi": False,
    "attention_chunk_size": None,
    "attention_multiplier": None,
    "attn_logit_softcapping": None,
    "dual_chunk_attention_config": None,
    "embedding_multiplier": 1,
    "final_logit_softcapping": None,
    "hidden_activation": "silu",
    "is_causal": True,
    "logit_scale": 1,
    "logits_scaling": 1,
    "mlp_bias": False,
    "no_rope_layers": None,
    "partial_rotary_factor": 1,
    "query_pre_attn_scalar": None,
    "residual_multiplier": 1,
    "rope_interleave": False,
    "rotary_pct": 1,
    "scale_attn_by_inverse_layer_idx": False,
    "sliding_window_pattern": None,
    "use_bidirectional_attention": False,
    "use_dynamic_ntk": False,
    "use_logn_attn": False,
    "use_parallel_residual": False,
}


def supported_family(reader: ConfigReader, families: Mapping[str, Family]) -> Family:
    """The family that the config is of, after every setting not computed here was looked for.

    Raises:
        UnsupportedModelError: it asks for another type, activation or quantisation, or a setting of
            other decoders has a value under which it would change the result.
    """
    model_type = reader.get("model_type")
    if not isinstance(model_type, str) or model_type not in families:
        names = ", ".join(name for family in families.values() for name in family.names)
        raise UnsupportedModelError(
            f"model_type is {model_type!r:.200}; supported: {', '.join(families)}. "
            f"Take a dense model of these: {names}"
        )
    family = families[model_type]
    hidden_act = reader.get("hidden_act", "silu")
    if hidden_act != "silu":
        raise UnsupportedModelError(
            f"hidden_act is {hidden_act!r:.200}; supported: silu. Take a model that was trained "
            "with it"
        )
    quantization = reader.get("quantization_config")
    if quantization is not None:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise UnsupportedModelError(
            f"the weights are quantised ({method or quantization!r:.200}); "
            "use the unquantised checkpoint"
        )
    for key, neutral in {**_NEUTRAL, **family.neutral}.items():
        refuse_unless_neutral(key, reader.get(key), neutral)
    return family


def refuse_unless_neutral(key: str, value: Any, neutral: Any) -> None:
    """Check that a setting which is not computed here does nothing: is null or `neutral`.

    Raises:
        UnsupportedModelError: it would change the result.
    """
    # To Python true is 1; in a config it is another kind of value.
    if value is None or (value == neutral and isinstance(value, bool) == isinstance(neutral, bool)):
        return
    supported = "null" if neutral is None else f"{neutral!r} or null"
    raise UnsupportedModelError(
        f"{key} is {value!r:.200}, which is not computed here; supported: {supported}. Take a "
        "model that was trained without it"
    )
