"""Float16 ends at 65504: attention whose scores go beyond it, and the path that stands it.

Every query and key here has a large part in common, as Qwen's biases give it to them. Its product
lifts or lowers all scores of a head alike, so it cancels in the softmax, but not before it has
overflowed where scores are held in float16.
"""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from augur_model import EAGER, EAGER_F32, Ops, QwenForCausalLM
from augur_model.ops import causal_mask, eager_attention, eager_f32_attention, within_window

HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
SCALE = HEAD_DIM**-0.5
LARGEST = torch.finfo(torch.float16).max
COMMON = (400.0, 200.0)  # of a query and of a key: 80,000 together

# queries, keys, window, and how many of the first keys are padding
CALLS = {
    "prefill": (19, 19, None, 0),
    "one token": (1, 1, None, 0),
    "decode": (1, 99, None, 0),
    "chunk on a filled cache": (7, 50, None, 0),
    "padding": (7, 50, None, 5),
    "window": (19, 19, 6, 0),
    "decode in a window": (1, 99, 6, 0),
}
Inputs = tuple[Tensor, Tensor, Tensor, Tensor | None]


def make_inputs(call: str, sign: float, dtype: torch.dtype) -> Inputs:
    """Query, key, value and mask, all but the mask exact in `dtype`."""
    queries, keys, window, padding = CALLS[call]
    generator = torch.Generator().manual_seed(keys)

    def normal(heads: int, length: int) -> Tensor:
        return torch.randn((2, heads, length, HEAD_DIM), generator=generator).to(dtype)

    query, key, value = normal(HEADS, queries), normal(KV_HEADS, keys), normal(KV_HEADS, keys)
    query[..., 0], key[..., 0] = sign * COMMON[0], COMMON[1]
    mask = None
    if padding:
        mask = causal_mask(queries, keys, query.device) & (torch.arange(keys) >= padding)
    if window is not None:
        key, value, mask = within_window(key, value, mask, queries, window)
    return query, key, value, mask


def in_float64(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float = SCALE
) -> Tensor:
    """The formula head by head and row by row, over the visible keys alone."""
    visible = causal_mask(query.shape[2], key.shape[2], query.device) if mask is None else mask
    output = torch.empty(query.shape, dtype=torch.float64)
    for head in range(HEADS):
        keys, values = (it[:, head * KV_HEADS // HEADS].double() for it in (key, value))
        for row in range(query.shape[2]):
            seen = visible[row]
            scores = keys[:, seen] @ query[:, head, row, :, None].double() * scale
            output[:, head, row] = (scores.softmax(1) * values[:, seen]).sum(1)
    return output


each_call = pytest.mark.parametrize("call", CALLS)
each_sign = pytest.mark.parametrize("sign", [1.0, -1.0], ids=["above", "below"])


def check_close(found: Tensor, inputs: Inputs) -> None:
    """Each partial sum near 80,000 rounds by up to 0.004 in float32; over 64 of them, scaled by
    1/8 and in an exponent, that moves a weight by a few thousandths."""
    expected = in_float64(*inputs)
    assert torch.isfinite(found).all(), "not close: not finite"
    error = (found.double() - expected).abs().max()
    assert error <= 1e-2, f"not close: largest error {error}"


@each_call
@each_sign
def test_scores_beyond_float16_break_eager_and_not_the_path_made_for_it(call, sign):
    inputs = make_inputs(call, sign, torch.float16)
    products = torch.einsum("bhqd,bhkd->bhqk", inputs[0][:, ::2].float(), inputs[1].float())
    assert products.abs().min() > LARGEST
    assert not torch.isfinite(eager_attention(*inputs, SCALE)).any()
    found = eager_f32_attention(*inputs, SCALE)
    assert found.dtype == torch.float16
    check_close(found, inputs)


@each_call
@each_sign
def test_where_bfloat16_is_finite_so_is_float16(call, sign):
    inputs = make_inputs(call, sign, torch.bfloat16)
    assert torch.isfinite(eager_attention(*inputs, SCALE)).all()
    *tensors, mask = inputs
    halves = [tensor.half() for tensor in tensors]
    assert torch.isfinite(eager_f32_attention(*halves, mask, SCALE)).all()


def query_scaled_first(query, key, value, mask, scale):
    """Finite, since 80,000 / 8 is, but scores near 10,000 are then multiples of 8."""
    return eager_attention(query * scale, key, value, mask, 1.0)


def scores_rounded_back(query, key, value, mask, scale):
    lowered = query.float() * scale @ key.repeat_interleave(2, 1).float().mT
    hidden = ~(causal_mask(query.shape[2], key.shape[2], query.device) if mask is None else mask)
    weights = lowered.half().float().masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights @ value.repeat_interleave(2, 1).float()).half()


@pytest.mark.parametrize("broken", [eager_attention, query_scaled_first, scores_rounded_back])
@pytest.mark.parametrize("call", ["prefill", "decode", "padding", "window"])
def test_a_path_that_holds_scores_in_float16_is_found(broken, call):
    inputs = make_inputs(call, 1.0, torch.float16)
    with pytest.raises(AssertionError, match="not close"):
        check_close(broken(*inputs, SCALE), inputs)


def test_in_float32_it_is_the_reference_to_the_last_bit():
    query, key, value, mask = (
        it if it is None else it.float() for it in make_inputs("prefill", 1.0, torch.float16)
    )
    query[..., 0] = 0.7
    expected = eager_attention(query, key, value, mask, SCALE)
    assert torch.equal(eager_f32_attention(query, key, value, mask, SCALE), expected)


# The whole model


@pytest.fixture
def make_large_model(make_model) -> Callable[[torch.dtype, Ops], QwenForCausalLM]:
    """Biases of q and k as large as above, in the dimension that the rotation turns least."""

    def make(dtype: torch.dtype, ops: Ops) -> QwenForCausalLM:
        window = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
        model = make_model(ops, **window)
        for layer in model.model.layers:
            for linear, size in zip(
                (layer.self_attn.q_proj, layer.self_attn.k_proj), COMMON, strict=True
            ):
                linear.bias.view(-1, 8)[:, 3] = size
        return model.to(dtype)

    return make


def prefill_and_decode(model: QwenForCausalLM, cache) -> Tensor:
    token_ids = torch.arange(3, 27)[None]
    pieces = token_ids.split([12, 9, 1, 1, 1], dim=1)
    return torch.cat([model(piece, cache=cache) for piece in pieces], dim=1)


def attention_in_float64(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    return in_float64(query, key, value, mask, scale).to(query.dtype)


def test_a_model_with_large_biases_computes_in_float16(make_large_model, make_cache):
    def logits(dtype: torch.dtype, ops: Ops) -> Tensor:
        return prefill_and_decode(make_large_model(dtype, ops), make_cache())

    assert not torch.isfinite(logits(torch.float16, EAGER)).any()
    assert torch.isfinite(logits(torch.bfloat16, EAGER)).all()
    # Not against the model in float32: rounding a key of 200 to float16 moves its score by 20,
    # which is the dtype's doing and not the path's.
    exact = logits(torch.float16, dataclasses.replace(EAGER, attention=attention_in_float64))
    torch.testing.assert_close(logits(torch.float16, EAGER_F32), exact, atol=2e-2, rtol=5e-3)


def test_on_an_ordinary_model_it_errs_no_more_than_eager(make_model, make_cache):
    def logits(dtype: torch.dtype, ops: Ops) -> Tensor:
        return prefill_and_decode(make_model(ops).to(dtype), make_cache()).float()

    oracle = logits(torch.float32, EAGER)
    error = (logits(torch.float16, EAGER_F32) - oracle).abs().max()
    allowed = 2 * (logits(torch.float16, EAGER) - oracle).abs().max()
    allowed += torch.finfo(torch.float16).eps * oracle.abs().max()
    assert error <= allowed
    scores_doubled = dataclasses.replace(
        EAGER_F32, attention=lambda *inputs: eager_f32_attention(*inputs[:4], 2 * inputs[4])
    )
    assert (logits(torch.float16, scores_doubled) - oracle).abs().max() > allowed
