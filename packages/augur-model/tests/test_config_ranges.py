"""Constants of the rotation outside of every model's range: refused, and no arithmetic fails."""

import pytest
import torch

from augur_model import ConfigError, QwenConfig, QwenForCausalLM

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize("theta", [1.0, 0.5, 1e-300, 1e300])
@pytest.mark.parametrize("scaling", [None, YARN], ids=["plain", "yarn"])
def test_a_theta_that_no_model_has_is_refused(config_json, theta, scaling):
    with pytest.raises(ConfigError, match=r"rope_theta is .*, expected 1\.01 to 1e\+30"):
        QwenConfig.from_dict(config_json | {"rope_theta": theta, "rope_scaling": scaling})


@pytest.mark.parametrize("key", ["factor", "attention_factor", "beta_fast", "beta_slow"])
@pytest.mark.parametrize("wrong", [1e-308, 1e-4, 1e7, 1e308])
def test_a_yarn_setting_that_no_model_has_is_refused(config_json, key, wrong):
    with pytest.raises(ConfigError, match=rf"{key} is .*, expected 0\.001 to 1e\+06"):
        QwenConfig.from_dict(config_json | {"rope_scaling": YARN | {key: wrong}})


@pytest.mark.parametrize("wrong", [2**31 + 1, 10**400])
def test_a_length_that_no_model_has_is_refused(config_json, wrong):
    scaling = YARN | {"original_max_position_embeddings": wrong}
    with pytest.raises(
        ConfigError, match=r"original_max_position_embeddings is .*, expected at most 2147"
    ):
        QwenConfig.from_dict(config_json | {"rope_scaling": scaling})


@pytest.mark.parametrize("theta", [1.01, 1e30])
@pytest.mark.parametrize("factor", [1e-3, 1e6])
@pytest.mark.parametrize("betas", [(1e-3, 1e6), (1e6, 1e-3), (1e6, 1e6)])
@pytest.mark.parametrize("length", [1, 2**31])
def test_at_every_corner_of_the_ranges_the_frequencies_are_finite(
    config_json, theta, factor, betas, length
):
    fast, slow = betas
    scaling = {"factor": factor, "beta_fast": fast, "beta_slow": slow}
    scaling |= {"rope_type": "yarn", "original_max_position_embeddings": length}
    config = QwenConfig.from_dict(config_json | {"rope_theta": theta, "rope_scaling": scaling})
    with torch.device("meta"):
        model = QwenForCausalLM(config)
    assert torch.isfinite(model.model.rotary_emb.inverse_frequencies).all()


def test_what_the_yarn_settings_name_cannot_steer_the_terminal(config_json):
    with pytest.raises(ConfigError) as refusal:
        QwenConfig.from_dict(config_json | {"rope_scaling": YARN | {"\x1b[2J\n": 1}})
    assert str(refusal.value).isprintable()


def test_a_wrong_value_is_shown_in_part_where_it_is_long(config_json):
    for key in ("hidden_size", "model_type", "hidden_act", "rms_norm_eps"):
        with pytest.raises(ConfigError) as refusal:
            QwenConfig.from_dict(config_json | {key: "x" * 10_000})
        assert len(str(refusal.value)) < 400
