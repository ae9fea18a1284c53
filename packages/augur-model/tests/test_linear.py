"""The table's linear op against a sum of products written out in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from augur_model import EAGER
from augur_model.ops import blocked_linear

each_linear = pytest.mark.parametrize(
    "linear", [EAGER.linear, blocked_linear], ids=["plain", "blocked"]
)
Projection = Callable[[Tensor, Tensor, Tensor | None], Tensor]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# batch, length, in_features, out_features
SHAPES = [(1, 1, 896, 896), (2, 19, 64, 128), (5, 2, 896, 130), (1, 99, 33, 7), (2, 257, 16, 3)]


def written_out(hidden_states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    wide = hidden_states.double()
    columns = [(wide * row.double()).sum(-1) for row in weight]
    total = torch.stack(columns, dim=-1)
    if bias is not None:
        total = total + bias.double()
    return total.to(hidden_states.dtype)


def make_inputs(
    batch: int, length: int, in_features: int, out_features: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Small whole numbers: every product and sum is exact in each dtype's accumulator."""
    generator = torch.Generator().manual_seed(in_features)

    def whole(*shape: int) -> Tensor:
        return torch.randint(-2, 3, shape, generator=generator).to(dtype)

    return whole(batch, length, in_features), whole(out_features, in_features), whole(out_features)


@pytest.fixture
def check(assert_op_close, left_unmodified) -> Callable[..., None]:
    def check(candidate: Projection, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        with left_unmodified(x, weight, *([] if bias is None else [bias])):
            actual = candidate(x, weight, bias)
        assert_op_close(actual, written_out(x, weight, bias))

    return check


@each_linear
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_sum_of_products(check, linear, shape, dtype, with_bias):
    hidden_states, weight, bias = make_inputs(*shape, dtype)
    check(linear, hidden_states, weight, bias if with_bias else None)


@each_linear
def test_takes_every_other_position_as_it_lies(check, linear):
    hidden_states, weight, bias = make_inputs(2, 38, 64, 128, torch.float32)
    check(linear, hidden_states[:, ::2], weight, bias)


@each_linear
def test_takes_a_weight_as_it_lies(check, linear):
    hidden_states, weight, bias = make_inputs(1, 5, 64, 256, torch.float32)
    check(linear, hidden_states, weight[::2], bias[::2])


def test_few_rows_go_in_blocks_and_others_as_they_are(monkeypatch):
    asked = []

    def bmm(*factors: Tensor) -> Tensor:
        asked.append([list(factor.shape) for factor in factors])
        return product(*factors)

    product = torch.bmm
    monkeypatch.setattr(torch, "bmm", bmm)
    for shape in [(1, 2, 96, 192), (2, 64, 96, 192)]:
        hidden_states, weight, bias = make_inputs(*shape, torch.float32)
        assert torch.equal(
            blocked_linear(hidden_states, weight, bias), EAGER.linear(hidden_states, weight, bias)
        )
    assert asked == [[[3, 2, 96], [3, 96, 64]], [[3, 128, 96], [3, 96, 64]]]
    for *shape, dtype in [
        (1, 1, 96, 192, torch.float32),
        (1, 129, 96, 192, torch.float32),
        (1, 2, 96, 130, torch.float32),
        (1, 2, 96, 192, torch.bfloat16),
        (0, 2, 96, 192, torch.float32),
    ]:
        hidden_states, weight, _ = make_inputs(*shape, dtype)
        blocked_linear(hidden_states, weight, None)
    assert len(asked) == 2


def bias_dropped(hidden_states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: ARG001
    return EAGER.linear(hidden_states, weight, None)


def weight_not_transposed(hidden_states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return EAGER.linear(hidden_states, weight.T, bias)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", [bias_dropped, weight_not_transposed])
def test_a_broken_projection_fails_the_comparison(check, broken, dtype):
    with pytest.raises(AssertionError, match="not close"):
        check(broken, *make_inputs(1, 2, 64, 64, dtype))
