"""RMSNorm against its formula written out in float64, rounded where the op says it rounds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from augur_model.ops import rms_norm

Norm = Callable[[Tensor, Tensor, float], Tensor]
HALF = [torch.bfloat16, torch.float16]
DTYPES = [torch.float32, *HALF]
SHAPES = [(1, 1, 896), (2, 2, 1536), (1, 19, 3584), (5, 99, 896), (2, 257, 1536)]


def written_out(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = hidden_states.double()
    mean_square = (wide * wide).sum(-1, keepdim=True) / wide.shape[-1]
    normalised = (wide / torch.sqrt(mean_square + eps)).to(hidden_states.dtype)
    return (normalised.double() * weight.double()).to(hidden_states.dtype)


def make_inputs(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows from about 0.001, where epsilon decides, to about 10.

    Weights are powers of two, so that a normalised value on a rounding boundary comes out at most
    one unit in the last place off, not one and a half.
    """
    generator = torch.Generator().manual_seed(sum(shape))
    row_sizes = 10 ** torch.empty(*shape[:-1], 1).uniform_(-3, 1, generator=generator)
    row_sizes[..., :1, :] = 1e-3
    hidden_states = torch.randn(shape, generator=generator) * row_sizes
    weight = (-2.0) ** torch.randint(-3, 2, shape[-1:], generator=generator)
    return hidden_states.to(dtype), weight.to(dtype)


@pytest.fixture
def check(assert_op_close, left_unmodified) -> Callable[..., None]:
    def check(candidate: Norm, hidden_states: Tensor, weight: Tensor, eps: float) -> None:
        with left_unmodified(hidden_states, weight):
            actual = candidate(hidden_states, weight, eps)
        assert_op_close(actual, written_out(hidden_states, weight, eps))

    return check


@pytest.mark.parametrize("eps", [1e-6, 1e-2])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_formula(check, shape, dtype, eps):
    check(rms_norm, *make_inputs(shape, dtype), eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_rows_and_strided_columns_give_the_same(check, dtype):
    hidden_states, weight = make_inputs((2, 38, 896), dtype)
    check(rms_norm, hidden_states[:, ::2], weight, 1e-6)
    by_columns = hidden_states.transpose(1, 2).contiguous().transpose(1, 2)
    check(rms_norm, by_columns, weight, 1e-6)


BROKEN: dict[str, Norm] = {
    "epsilon fixed": lambda x, weight, eps: rms_norm(x, weight, 1e-5),  # noqa: ARG005
    "no epsilon": lambda x, weight, eps: rms_norm(x, weight, 0.0),  # noqa: ARG005
    "epsilon outside the root": lambda x, weight, eps: rms_norm(x, weight, eps**2),
    "mean subtracted": lambda x, weight, eps: rms_norm(
        x - x.mean(-1, keepdim=True) - 0.1, weight, eps
    ),
    "weight counted from one": lambda x, weight, eps: rms_norm(x, 1 + weight, eps),
    "not per row": lambda x, weight, eps: rms_norm(
        x.flatten(1), weight.repeat(x.shape[1]), eps
    ).unflatten(-1, x.shape[1:]),
}


@pytest.mark.parametrize("eps", [1e-6, 1e-2])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_norm_fails_the_comparison(check, broken, dtype, eps):
    with pytest.raises(AssertionError, match="not close"):
        check(broken, *make_inputs((2, 19, 896), dtype), eps)


def weight_before_rounding(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    return rms_norm(hidden_states.float(), weight.float(), eps).to(hidden_states.dtype)


def rounded_before_the_root(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    mean_square = hidden_states.pow(2).mean(-1, keepdim=True)
    return weight * (hidden_states * torch.rsqrt(mean_square + eps))


@pytest.mark.parametrize("dtype", HALF)
def test_the_weight_is_multiplied_after_rounding_back(assert_same_rounding, dtype):
    hidden_states, weight = make_inputs((2, 19, 1536), dtype)
    inputs = hidden_states, weight * torch.linspace(1, 2, 1536).to(dtype)
    assert_same_rounding(rms_norm(*inputs, 1e-6), written_out(*inputs, 1e-6))
    for broken in (weight_before_rounding, rounded_before_the_root):
        with pytest.raises(AssertionError, match="not close"):
            assert_same_rounding(broken(*inputs, 1e-6), written_out(*inputs, 1e-6))


def test_the_models_norms_use_the_epsilon_of_the_config(make_model):
    token_ids = torch.tensor([[3, 7]])
    models = [make_model(rms_norm_eps=eps) for eps in (1e-6, 1e-2)]
    for model in models:
        model.model.embed_tokens.weight.mul_(1e-2)
    small_eps, large_eps = (model(token_ids) for model in models)
    assert (small_eps - large_eps).abs().max() > 0.1
