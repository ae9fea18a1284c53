"""A linear layer may hold something else than a float matrix."""

import pytest
import torch
from torch import Tensor, nn

from augur_model import EAGER, Linear, Ops, QwenConfig, QwenForCausalLM, replace_linears

GROUP = 8
TOKEN_IDS = torch.tensor([[5, 3, 99, 0, 150, 3, 42], [1, 1, 2, 3, 5, 8, 13]])
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


class Int8Linear(nn.Module):
    """Weights in whole numbers from -127 to 127, with a scale for each group of a row."""

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        groups = linear.weight.detach().float().unflatten(1, (-1, GROUP))
        scales = groups.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
        self.register_buffer("whole", (groups / scales).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.bias = linear.bias

    def forward(self, hidden_states: Tensor, ops: Ops) -> Tensor:
        weight = (self.whole * self.scales).flatten(1).to(hidden_states.dtype)
        return ops.linear(hidden_states, weight, self.bias)


def int8(_: str, linear: Linear) -> Int8Linear:
    return Int8Linear(linear)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("tied", [True, False])
def test_every_projection_in_int8_computes_in_the_models_dtype(make_model, tied, dtype):
    model = make_model(tie_word_embeddings=tied).to(dtype)
    expected = model(TOKEN_IDS)
    names = replace_linears(model, int8)
    assert len(names) == 2 * 7 + 1
    assert not [part for part in model.modules() if isinstance(part, Linear)]
    assert (model.dtype, model.device) == (dtype, torch.device("cpu"))
    logits = model(TOKEN_IDS)
    assert (logits.dtype, logits.shape) == (dtype, expected.shape)
    # Rounded to 1 in 254 of a group's largest weight: close, and not the same.
    assert not torch.equal(logits, expected)
    error = (logits - expected).float().norm() / expected.float().norm()
    assert error < 0.05


def test_what_make_leaves_stays_and_names_are_those_of_the_model(make_model):
    model = make_model()
    names = replace_linears(model, lambda name, one: int8(name, one) if "q_proj" in name else None)
    assert names == [f"model.layers.{index}.self_attn.q_proj" for index in range(2)]
    kinds = {name: type(model.get_submodule(name)) for name in [*names, "lm_head"]}
    assert set(kinds.values()) == {Int8Linear, Linear}


def test_a_replaced_head_is_no_longer_tied_and_the_embedding_stays(make_model):
    model = make_model(tie_word_embeddings=True)
    embedding = model.model.embed_tokens.weight.clone()
    replace_linears(model, lambda name, one: int8(name, one) if name == "lm_head" else None)
    head = model.lm_head.whole.clone()
    model.to(torch.bfloat16)
    assert model.dtype == torch.bfloat16
    assert torch.equal(model.lm_head.whole, head)
    assert torch.equal(model.model.embed_tokens.weight, embedding.bfloat16())
    assert model(TOKEN_IDS).dtype == torch.bfloat16


def test_a_model_on_the_meta_device_says_its_dtype_and_device(config_json):
    with torch.device("meta"):
        model = QwenForCausalLM(QwenConfig.from_dict(config_json))
    assert (model.dtype, model.device.type) == (torch.float32, "meta")


def test_an_embedding_in_another_dtype_gives_rows_in_the_models(make_model):
    model = make_model()
    expected = model(TOKEN_IDS)
    embedding = model.model.embed_tokens
    embedding.weight = nn.Parameter(embedding.weight.double(), requires_grad=False)
    assert torch.equal(model(TOKEN_IDS), expected)
    assert model.ops == EAGER
