"""A `config.json` that is unsupported, wrong or incomplete is one error that names the key."""

import json
import math
import re

import pytest

from augur_model import ConfigError, QwenConfig, UnsupportedModelError

WHOLE_NUMBERS = [
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
]
NUMBERS = ["rms_norm_eps", "rope_theta"]

UNSUPPORTED = {
    "mixture of experts": ({"model_type": "qwen3_moe"}, "model_type", "qwen2, qwen3"),
    "vision": ({"model_type": "qwen2_vl"}, "model_type", "qwen2_vl"),
    "another family": ({"model_type": "llama"}, "model_type", "llama"),
    "Qwen3 with biases": (
        {"model_type": "qwen3", "head_dim": 8, "attention_bias": True},
        "attention_bias is True",
        "False or null",
    ),
    "no model type": ({"model_type": None}, "model_type", "None"),
    "another activation": ({"hidden_act": "gelu"}, "hidden_act", "gelu"),
    "dynamic by type": (
        {"rope_scaling": {"type": "dynamic", "factor": 4.0}},
        "rope_type",
        "dynamic",
    ),
    "linear by rope_type": ({"rope_scaling": {"rope_type": "linear"}}, "rope_type", "linear"),
    "llama3 in version 5": ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type", "llama3"),
    "dynamic beside a default": (
        {"rope_parameters": {"rope_type": "default"}, "rope_scaling": {"type": "dynamic"}},
        "rope_type",
        "dynamic",
    ),
    "a setting of YaRN": (
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 1.0}},
        "YaRN",
        "mscale",
    ),
    "two spellings, two answers": (
        {"rope_scaling": {"rope_type": "default", "type": "linear"}},
        "rope_type",
        "linear",
    ),
    "another kind of layer": (
        {"layer_types": ["full_attention", "chunked_attention"]},
        "layer_types",
        "chunked_attention",
    ),
    "rope of a kind of layer": (
        {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}},
        "rope_parameters",
        "full_attention",
    ),
    "rotation of a part": (
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
        "rope_parameters.partial_rotary_factor",
        "0.5",
    ),
    "rotation of a part under YaRN": (
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "partial_rotary_factor": 0.5}},
        "rope_scaling.partial_rotary_factor",
        "0.5",
    ),
    "quantised": ({"quantization_config": {"quant_method": "gptq"}}, "quantised", "gptq"),
    "quantised somehow": ({"quantization_config": {"bits": 4}}, "quantised", "bits"),
}


@pytest.mark.parametrize(("change", "what", "found"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_what_is_not_computed_here_is_refused_by_name(config_json, change, what, found):
    with pytest.raises(UnsupportedModelError) as refusal:
        QwenConfig.from_dict(config_json | change)
    assert what in str(refusal.value)
    assert found in str(refusal.value)
    assert re.search("Take a |use the unquantised", str(refusal.value))


# A key of another decoder, values under which it does nothing, and values that are refused.
FOREIGN = {
    "partial_rotary_factor": ([None, 1, 1.0], [0.5, True, "1.0", math.nan]),
    "final_logit_softcapping": ([None], [30.0, 0.0, False]),
    "attn_logit_softcapping": ([None], [50.0]),
    "mlp_bias": ([None, False], [True, 0, "false"]),
    "logits_scaling": ([None, 1.0], [8.0]),
    "residual_multiplier": ([None, 1.0], [0.22]),
    "use_logn_attn": ([None, False], [True]),
    "is_causal": ([None, True], [False]),
    "hidden_activation": ([None, "silu"], ["gelu_pytorch_tanh"]),
    "dual_chunk_attention_config": ([None], [{"chunk_size": 262144}]),
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (_, wrong) in FOREIGN.items() for value in wrong]
)
def test_a_setting_of_other_decoders_is_refused_where_it_changes_the_result(
    config_json, key, value
):
    with pytest.raises(UnsupportedModelError) as refusal:
        QwenConfig.from_dict(config_json | {key: value})
    message = str(refusal.value)
    assert message.startswith(f"{key} is {value!r}, which is not computed here; supported: ")
    assert message.endswith("Take a model that was trained without it")


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (neutral, _) in FOREIGN.items() for value in neutral]
)
def test_and_accepted_where_it_changes_nothing(config_json, key, value):
    assert QwenConfig.from_dict(config_json | {key: value}) == QwenConfig.from_dict(config_json)


def test_a_neutral_part_of_the_rotation_is_accepted_in_a_section(config_json):
    yarn = {"rope_type": "yarn", "factor": 4.0}
    neutral = {"rope_scaling": yarn | {"partial_rotary_factor": 1.0}}
    plain = QwenConfig.from_dict(config_json | {"rope_scaling": yarn})
    assert QwenConfig.from_dict(config_json | neutral) == plain


def test_a_key_that_nobody_knows_is_passed_over(config_json):
    unknown = {"my_note": "trained on a Tuesday", "attention_dropout": 0.1}
    assert QwenConfig.from_dict(config_json | unknown) == QwenConfig.from_dict(config_json)


@pytest.mark.parametrize("number", [0, 1, 3, 7])
def test_layer_types_are_as_many_as_layers(config_json, number):
    with pytest.raises(ConfigError, match=f"layer_types of {number} layers, expected 2, as num_"):
        QwenConfig.from_dict(config_json | {"layer_types": ["full_attention"] * number})


@pytest.mark.parametrize("key", WHOLE_NUMBERS)
def test_a_number_of_hundreds_of_digits_is_shown_in_part(config_json, key):
    with pytest.raises(ConfigError, match=rf"{key} is 10+\.\.\., expected at most") as refusal:
        QwenConfig.from_dict(config_json | {key: 10**300})
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("wrong", [1e300, 1.5, 1e-31, 5e-324])
def test_an_epsilon_that_no_norm_has_is_refused(config_json, wrong):
    with pytest.raises(ConfigError, match=r"rms_norm_eps is .*, expected 1e-30 to 1\. Correct"):
        QwenConfig.from_dict(config_json | {"rms_norm_eps": wrong})


@pytest.mark.parametrize("positions", [2**31 + 1, 10**300])
def test_more_positions_than_any_model_has_are_refused(config_json, positions):
    with pytest.raises(ConfigError, match=r"max_position_embeddings is .*, expected at most 21474"):
        QwenConfig.from_dict(config_json | {"max_position_embeddings": positions})


@pytest.mark.parametrize("wrong", ["32", True, -1, 0, math.nan, 32.5, [32], {}], ids=repr)
@pytest.mark.parametrize("key", WHOLE_NUMBERS)
def test_a_size_is_a_whole_number_above_0(config_json, key, wrong):
    with pytest.raises(ConfigError, match=rf"\b{key} is {re.escape(repr(wrong))}"):
        QwenConfig.from_dict(config_json | {key: wrong})


ABSURD = {
    "layers": ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, expected at most"),
    "layers of windows": (
        {
            "num_hidden_layers": 10**12,
            "use_sliding_window": True,
            "sliding_window": 8,
            "max_window_layers": 1,
        },
        "num_hidden_layers is 1000000000000, expected at most",
    ),
    "width": ({"hidden_size": 10**12}, "hidden_size"),
    "MLP": ({"intermediate_size": 10**13}, "intermediate_size"),
    "vocabulary": ({"vocab_size": 10**15}, "vocab_size"),
    "heads": ({"num_attention_heads": 10**12, "head_dim": 64}, "number of heads"),
    "head_dim": ({"head_dim": 2**20}, "head_dim is 1048576, expected at most"),
    "hundreds of digits": ({"vocab_size": 10**400}, "vocab_size"),
}


@pytest.mark.parametrize(("change", "message"), ABSURD.values(), ids=ABSURD.keys())
def test_sizes_beyond_any_machine_are_refused_before_anything_is_built(
    config_json, change, message
):
    with pytest.raises(ConfigError, match=message):
        QwenConfig.from_dict(config_json | change)


@pytest.mark.parametrize(
    "wrong", ["1e-6", True, -1e-6, 0, 0.0, math.nan, math.inf, [1.0]], ids=repr
)
@pytest.mark.parametrize("key", NUMBERS)
def test_a_constant_is_a_finite_number_above_0(config_json, key, wrong):
    with pytest.raises(ConfigError, match=rf"\b{key} is {re.escape(repr(wrong))}"):
        QwenConfig.from_dict(config_json | {key: wrong})


def test_a_whole_number_too_large_for_a_float_is_refused_as_any_other(config_json):
    with pytest.raises(ConfigError, match="rope_theta is 1000"):
        QwenConfig.from_dict(config_json | {"rope_theta": 10**400})


def test_the_place_of_a_wrong_theta_is_named(config_json):
    with pytest.raises(ConfigError, match=r"rope_parameters\.rope_theta is 'big' \(str\)"):
        QwenConfig.from_dict(config_json | {"rope_parameters": {"rope_theta": "big"}})


@pytest.mark.parametrize("key", ["tie_word_embeddings", "use_sliding_window"])
@pytest.mark.parametrize("wrong", ["true", 1, []], ids=repr)
def test_a_switch_is_true_or_false(config_json, key, wrong):
    with pytest.raises(ConfigError, match=f"{key} is .* expected true or false"):
        QwenConfig.from_dict(config_json | {key: wrong})


@pytest.mark.parametrize("wrong", ["full_attention", 5, {"0": "full_attention"}], ids=repr)
def test_layer_types_are_an_array(config_json, wrong):
    with pytest.raises(ConfigError, match=r"layer_types is .* expected an array"):
        QwenConfig.from_dict(config_json | {"layer_types": wrong})


@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
def test_a_rope_section_is_an_object(config_json, key):
    with pytest.raises(ConfigError, match=f"{key}: found a list, expected an object"):
        QwenConfig.from_dict(config_json | {key: ["yarn"]})


@pytest.mark.parametrize("text", ["[]", '"qwen2"', "7", "null"])
def test_the_file_is_an_object(text):
    with pytest.raises(ConfigError, match=r"config\.json: found a \w+, expected an object"):
        QwenConfig.from_dict(json.loads(text))


OPTIONAL = ["num_key_value_heads", "head_dim"]


@pytest.mark.parametrize("key", [key for key in WHOLE_NUMBERS + NUMBERS if key not in OPTIONAL])
def test_a_missing_key_is_named(config_json, key):
    del config_json[key]
    with pytest.raises(ConfigError, match=f"has no {key}, expected a .* above 0. Correct"):
        QwenConfig.from_dict(config_json)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_key_value_heads": 3}, "num_attention_heads is 4.* num_key_value_heads, 3"),
        ({"head_dim": 7}, "head_dim is 7.* even"),
        ({"hidden_size": 34}, "no head_dim.* hidden_size 34.* num_attention_heads 4"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(config_json, change, message):
    with pytest.raises(ConfigError, match=message):
        QwenConfig.from_dict(config_json | change)
