"""The whole model: its names, its weights and its formula."""

import dataclasses

import pytest
import torch
from torch import Tensor

from augur_model import EAGER, SDPA, QwenConfig, QwenForCausalLM
from augur_model.ops import apply_rope, inverse_frequencies, rope_tables

LAYER_NAMES = [
    "input_layernorm.weight",
    "mlp.down_proj.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "post_attention_layernorm.weight",
    "self_attn.k_proj.bias",
    "self_attn.k_proj.weight",
    "self_attn.o_proj.weight",
    "self_attn.q_proj.bias",
    "self_attn.q_proj.weight",
    "self_attn.v_proj.bias",
    "self_attn.v_proj.weight",
]
CHECKPOINT_NAMES = {
    "model.embed_tokens.weight",
    *(f"model.layers.{index}.{name}" for index in range(2) for name in LAYER_NAMES),
    "model.norm.weight",
}
TOKEN_IDS = torch.tensor([[5, 3, 99, 0, 150, 3, 42], [1, 1, 2, 3, 5, 8, 13]])


@pytest.mark.parametrize("tied", [True, False])
def test_parameter_names_are_those_of_a_qwen2_checkpoint(make_model, tied):
    model = make_model(tie_word_embeddings=tied)
    head = set() if tied else {"lm_head.weight"}
    assert {name for name, _ in model.named_parameters()} == CHECKPOINT_NAMES | head
    assert set(model.state_dict()) == CHECKPOINT_NAMES | {"lm_head.weight"}


def assert_tied(model: QwenForCausalLM) -> None:
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


def test_tied_weights_share_memory_and_keep_it_when_moved(config_json):
    with torch.device("meta"):
        config = QwenConfig.from_dict(config_json | {"tie_word_embeddings": True})
        model = QwenForCausalLM(config)
    assert_tied(model.to_empty(device="cpu"))
    assert_tied(model.to(torch.bfloat16))


def test_untied_weights_do_not_share_memory(make_model):
    model = make_model()
    assert model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_logits_have_the_dtype_of_the_model(make_model, dtype):
    model = make_model().to(dtype)
    logits = model(TOKEN_IDS)
    assert (model.dtype, model.device) == (dtype, torch.device("cpu"))
    assert (logits.dtype, tuple(logits.shape)) == (dtype, (2, 7, 151))


def written_out(model: QwenForCausalLM, token_ids: Tensor) -> Tensor:
    """The decoder as formulas over the checkpoint's tensors, in float64."""
    config = model.config
    weights = {name: tensor.double() for name, tensor in model.state_dict().items()}

    def norm(x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).sqrt() * weights[name]

    def project(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    length = token_ids.shape[1]
    frequencies = inverse_frequencies(config.head_dim, config.rope_theta)
    cos, sin = rope_tables(torch.arange(length)[None], frequencies, torch.float64)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)

    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, config.head_dim)).transpose(1, 2)

    def attend(x: Tensor, name: str) -> Tensor:
        query, key = (
            apply_rope(heads(project(x, f"{name}.{part}_proj")), cos, sin) for part in "qk"
        )
        value = heads(project(x, f"{name}.v_proj"))
        kv_head_of = [
            head * config.num_key_value_heads // config.num_attention_heads
            for head in range(config.num_attention_heads)
        ]
        scores = query @ key[:, kv_head_of].mT / config.head_dim**0.5
        mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ value[:, kv_head_of]
        return project(mixed.transpose(1, 2).flatten(2), f"{name}.o_proj")

    def feed_forward(x: Tensor, name: str) -> Tensor:
        gate = project(x, f"{name}.gate_proj")
        return project(gate * gate.sigmoid() * project(x, f"{name}.up_proj"), f"{name}.down_proj")

    x = weights["model.embed_tokens.weight"][token_ids]
    for index in range(config.num_hidden_layers):
        layer = f"model.layers.{index}"
        x = x + attend(norm(x, f"{layer}.input_layernorm.weight"), f"{layer}.self_attn")
        x = x + feed_forward(norm(x, f"{layer}.post_attention_layernorm.weight"), f"{layer}.mlp")
    return project(norm(x, "model.norm.weight"), "lm_head")


def check_model(model: QwenForCausalLM, ops=EAGER) -> None:
    expected = written_out(model, TOKEN_IDS).float()
    model.ops = ops
    # The whole model in float32: the rounding of some twenty matrix products.
    torch.testing.assert_close(model(TOKEN_IDS), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
@pytest.mark.parametrize("change", [{}, {"head_dim": 16}, {"tie_word_embeddings": True}], ids=str)
def test_the_model_is_its_formula(make_model, change, ops):
    check_model(make_model(**change), ops)


BROKEN = {
    "biases dropped": {"linear": lambda x, weight, bias: EAGER.linear(x, weight, None)},  # noqa: ARG005
    "epsilon fixed": {"rms_norm": lambda x, weight, eps: EAGER.rms_norm(x, weight, 1e-2)},  # noqa: ARG005
    "not rotated": {"apply_rope": lambda heads, cos, sin: heads},  # noqa: ARG005
    "gate and up swapped": {"swiglu": lambda gate, up: EAGER.swiglu(up, gate)},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_op_fails_the_comparison_of_the_model(make_model, broken):
    with pytest.raises(AssertionError, match="not close"):
        check_model(make_model(), dataclasses.replace(EAGER, **broken))
