"""What sets the members of the family apart is read from `config.json`, never from a name."""

import pytest
import torch

from augur_model import (
    FAMILIES,
    ConfigError,
    Family,
    QwenConfig,
    QwenForCausalLM,
    UnsupportedModelError,
    Yarn,
)

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
SLIDING = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}


def test_qwen2_has_biases_and_no_head_norms(config_json):
    config = QwenConfig.from_dict(config_json)
    assert (config.attention_bias, config.qk_norm) == (True, False)


def test_qwen3_has_head_norms_and_no_biases(config_json):
    config = QwenConfig.from_dict(config_json | {"model_type": "qwen3", "head_dim": 16})
    assert (config.attention_bias, config.qk_norm, config.head_dim) == (False, True, 16)


def test_qwen3_names_its_head_dim(config_json):
    config_json.pop("head_dim", None)
    with pytest.raises(
        ConfigError, match=r"has no head_dim, expected a whole number above 0. Correct config.json"
    ):
        QwenConfig.from_dict(config_json | {"model_type": "qwen3"})


@pytest.mark.parametrize(
    "change",
    [
        {"rope_scaling": {**YARN, "rope_type": None, "type": "yarn"}},
        {"rope_scaling": YARN},
        {"rope_parameters": {**YARN, "rope_theta": 1_000_000.0}},
        {"rope_parameters": YARN, "rope_scaling": YARN},
    ],
)
def test_yarn_is_read_wherever_it_is_written(config_json, change):
    yarn = QwenConfig.from_dict(config_json | change).yarn
    # 0.1 ln(4) + 1, the paper's attention factor
    assert yarn == Yarn(4.0, 64, pytest.approx(1.138629436))


def test_yarn_without_an_original_length_takes_the_positions_as_such(config_json):
    yarn = {"rope_type": "yarn", "factor": 2.0}
    changes = {"rope_scaling": yarn, "max_position_embeddings": 512}
    config = QwenConfig.from_dict(config_json | changes)
    assert config.yarn.original_max_position_embeddings == 512


def test_two_places_that_disagree_about_yarn_are_an_error(config_json):
    changes = {"rope_parameters": YARN, "rope_scaling": {**YARN, "factor": 2.0}}
    with pytest.raises(ConfigError, match="disagree"):
        QwenConfig.from_dict(config_json | changes)


def test_a_window_is_given_to_the_layers_from_max_window_layers_on(config_json):
    config = QwenConfig.from_dict(config_json | SLIDING | {"num_hidden_layers": 3})
    assert config.attention_windows == (None, 8, 8)


def test_layer_types_say_which_layers_slide(config_json):
    layer_types = ["sliding_attention", "full_attention"]
    changes = SLIDING | {"num_hidden_layers": 2, "layer_types": layer_types}
    assert QwenConfig.from_dict(config_json | changes).attention_windows == (8, None)


@pytest.mark.parametrize("change", [{}, {"use_sliding_window": False, "sliding_window": 8}])
def test_a_window_that_is_not_used_is_none(config_json, change):
    assert QwenConfig.from_dict(config_json | change).attention_windows == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sliding_window": None}, "no sliding_window"),
        ({"sliding_window": 0}, "sliding_window is 0"),
        ({"max_window_layers": -1}, "max_window_layers is -1"),
        ({"layer_types": ["sliding_attention"]}, "layer_types of 1 layers, expected 2"),
        (
            {"layer_types": ["sliding_attention"] * 2, "use_sliding_window": False},
            "use_sliding_window is not true",
        ),
    ],
)
def test_windows_that_do_not_add_up_are_an_error(config_json, change, message):
    with pytest.raises(ConfigError, match=message):
        QwenConfig.from_dict(config_json | SLIDING | {"num_hidden_layers": 2} | change)


@pytest.mark.parametrize(
    "change",
    [
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "rope_scaling": YARN},
        {"rope_parameters": YARN, "rope_scaling": {"type": "default"}},
        {"rope_parameters": YARN | {"rope_theta": 1e6}, "rope_scaling": YARN},
    ],
)
def test_two_descriptions_of_the_rotation_that_differ_are_an_error(config_json, change):
    with pytest.raises(ConfigError, match="rope_parameters and rope_scaling that disagree"):
        QwenConfig.from_dict(config_json | change)


def test_two_names_of_the_rotation_that_differ_are_an_error(config_json):
    scaling = {**YARN, "rope_type": "default", "type": "yarn"}
    with pytest.raises(ConfigError, match="rope_type 'default' and type 'yarn'"):
        QwenConfig.from_dict(config_json | {"rope_scaling": scaling})


def test_an_original_length_beside_the_section_has_to_be_the_same(config_json):
    key = "original_max_position_embeddings"
    same = QwenConfig.from_dict(config_json | {"rope_scaling": YARN, key: 64})
    assert same.yarn.original_max_position_embeddings == 64
    with pytest.raises(ConfigError, match=f"{key} is 32, and 64 for YaRN"):
        QwenConfig.from_dict(config_json | {"rope_scaling": YARN, key: 32})
    without = {"rope_type": "yarn", "factor": 4.0}
    with pytest.raises(ConfigError, match=f"{key} is 32"):
        QwenConfig.from_dict(config_json | {"rope_scaling": without, key: 32})


def test_truncate_of_null_is_neither_true_nor_false(config_json):
    with pytest.raises(ConfigError, match="truncate is null"):
        QwenConfig.from_dict(config_json | {"rope_scaling": YARN | {"truncate": None}})


@pytest.mark.parametrize(
    ("positions", "factor", "expected"), [(64, 4.0, 256), (300, 4.0, 300), (64, 0.5, 64)]
)
def test_yarn_stretches_the_positions(config_json, positions, factor, expected):
    changes = {"max_position_embeddings": positions, "rope_scaling": YARN | {"factor": factor}}
    config = QwenConfig.from_dict(config_json | changes)
    assert config.num_positions == expected
    assert config.max_position_embeddings == positions


def test_a_window_of_one_token_is_refused(config_json):
    changes = {"use_sliding_window": True, "sliding_window": 1, "max_window_layers": 0}
    with pytest.raises(UnsupportedModelError, match="sliding_window is 1"):
        QwenConfig.from_dict(config_json | changes)


TOY = Family(("Toy",), attention_bias=False, qk_norm=False, neutral={"toy_scale": 1.0})


def test_another_family_is_one_record(config_json):
    """Neither biases nor norms of heads: the network of Llama."""
    families = FAMILIES | {"toy": TOY}
    toy = QwenConfig.from_dict(config_json | {"model_type": "toy", "toy_scale": 1.0}, families)
    assert (toy.attention_bias, toy.qk_norm, toy.head_dim) == (False, False, 8)

    model, qwen2 = QwenForCausalLM(toy), QwenForCausalLM(QwenConfig.from_dict(config_json))
    names = {name for name, _ in qwen2.named_parameters()}
    assert {name for name, _ in model.named_parameters()} == {
        name for name in names if not name.endswith(".bias")
    }
    for name, parameter in qwen2.named_parameters():
        parameter.zero_() if name.endswith(".bias") else parameter.normal_(0, 0.2)
    without_biases = {
        name: value for name, value in qwen2.state_dict().items() if "bias" not in name
    }
    model.load_state_dict(without_biases)
    token_ids = torch.tensor([[5, 3, 99, 0, 150]])
    assert model(token_ids).isfinite().all()
    assert torch.equal(model(token_ids), qwen2(token_ids))


def test_a_record_says_what_its_family_does_not_compute(config_json):
    toy = config_json | {"model_type": "toy"}
    with pytest.raises(UnsupportedModelError, match="toy_scale is 2, which is not computed here"):
        QwenConfig.from_dict(toy | {"toy_scale": 2}, FAMILIES | {"toy": TOY})
    QwenConfig.from_dict(config_json | {"toy_scale": 2}, FAMILIES | {"toy": TOY})
    with pytest.raises(
        UnsupportedModelError, match=r"supported: qwen2, qwen3\. .* Qwen2\.5, Qwen3"
    ):
        QwenConfig.from_dict(toy)


@pytest.mark.parametrize("model_type", [["qwen2"], {"qwen2": 1}, 2, True], ids=repr)
def test_a_model_type_that_is_no_text_is_refused(config_json, model_type):
    with pytest.raises(UnsupportedModelError, match="model_type is"):
        QwenConfig.from_dict(config_json | {"model_type": model_type})
