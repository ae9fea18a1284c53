"""What `QwenConfig` reads from a checkpoint's `config.json`."""

import pytest

from augur_model import QwenConfig, QwenForCausalLM

TRANSFORMERS_4 = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 896,
    "initializer_range": 0.02,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "model_type": "qwen2",
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}

MOVED = ("rope_theta", "torch_dtype", "sliding_window")
TRANSFORMERS_5 = {key: value for key, value in TRANSFORMERS_4.items() if key not in MOVED} | {
    "dtype": "bfloat16",
    "layer_types": ["full_attention"] * 24,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "sliding_window": None,
    "transformers_version": "5.0.0",
}


@pytest.mark.parametrize("config", [TRANSFORMERS_4, TRANSFORMERS_5], ids=["4", "5"])
def test_reads_what_either_version_of_transformers_wrote(config):
    assert QwenConfig.from_dict(config) == QwenConfig(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        attention_bias=True,
        tie_word_embeddings=True,
    )


def test_head_dim_may_differ_from_hidden_size_by_heads(config_json):
    config = QwenConfig.from_dict(config_json | {"head_dim": 16})
    attention = QwenForCausalLM(config).model.layers[0].self_attn
    assert config.head_dim == 16
    assert attention.q_proj.weight.shape == (4 * 16, 32)
    assert attention.k_proj.weight.shape == (2 * 16, 32)
    assert attention.o_proj.weight.shape == (32, 4 * 16)
    assert attention.scale == 16**-0.5


def test_a_null_head_dim_is_as_good_as_none(config_json):
    assert QwenConfig.from_dict(config_json | {"head_dim": None}).head_dim == 8


@pytest.mark.parametrize("missing", [{}, {"num_key_value_heads": None}], ids=["left out", "null"])
def test_without_key_value_heads_every_head_has_its_own(config_json, missing):
    del config_json["num_key_value_heads"]
    assert QwenConfig.from_dict(config_json | missing).num_key_value_heads == 4


def test_embeddings_are_untied_unless_the_config_ties_them(config_json):
    del config_json["tie_word_embeddings"]
    assert QwenConfig.from_dict(config_json).tie_word_embeddings is False


@pytest.mark.parametrize("theta", [10000, 1e6])
def test_theta_is_read_from_the_rope_section_before_the_top_level(config_json, theta):
    section = {"rope_type": "default", "rope_theta": theta}
    for key in ("rope_parameters", "rope_scaling"):
        config = QwenConfig.from_dict(config_json | {"rope_theta": 5e5, key: section})
        assert config.rope_theta == theta
    assert QwenConfig.from_dict(config_json | {"rope_theta": theta}).rope_theta == theta


@pytest.mark.parametrize(
    "unscaled",
    [
        {"rope_scaling": None},
        {"rope_scaling": {"type": "default"}},
        {"rope_parameters": {"rope_type": "default"}},
        {"layer_types": None},
        {"quantization_config": None},
    ],
)
def test_a_section_that_asks_for_nothing_special_changes_nothing(config_json, unscaled):
    assert QwenConfig.from_dict(config_json | unscaled) == QwenConfig.from_dict(config_json)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tie_word_embeddings": True},
        {"num_key_value_heads": 4, "head_dim": 16, "num_hidden_layers": 3},
        {"model_type": "qwen3", "head_dim": 6, "num_key_value_heads": 1},
    ],
    ids=str,
)
def test_parameters_are_counted_without_building_them(make_model, change):
    model = make_model(**change)
    assert model.config.num_parameters == sum(it.numel() for it in model.parameters())
