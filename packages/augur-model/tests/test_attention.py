"""Every attention path against softmax attention written out in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from augur_model.ops import eager_attention, eager_f32_attention, sdpa_attention

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]
EVERY = [eager_attention, eager_f32_attention, sdpa_attention]
HALF = [torch.bfloat16, torch.float16]
DTYPES = [torch.float32, *HALF]


@dataclass(frozen=True)
class Shape:
    """Sizes of one call; keys beyond `queries` are what a cache held before."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    queries: int
    keys: int


SHAPES = [
    Shape(1, 14, 2, 64, 1, 1),
    Shape(2, 12, 2, 128, 2, 19),
    Shape(1, 28, 4, 128, 19, 99),
    Shape(5, 16, 8, 128, 1, 257),
    Shape(1, 14, 2, 64, 99, 99),
    Shape(2, 1, 1, 64, 257, 257),
]
LARGE = Shape(5, 28, 4, 128, 257, 257)  # in float32 alone: half precision on a CPU takes seconds
FILLED_CACHE = Shape(2, 4, 2, 64, 3, 19)


def make_inputs(shape: Shape, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries as a projection gives them, keys and values as a cache does: none is contiguous."""
    generator = torch.Generator().manual_seed(shape.keys)
    capacity = shape.keys + 3

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, generator=generator).to(dtype)

    query = normal(shape.batch, shape.queries, shape.heads, shape.head_dim).transpose(1, 2)
    key = normal(shape.batch, shape.kv_heads, capacity, shape.head_dim)[:, :, : shape.keys]
    value = normal(shape.batch, shape.kv_heads, capacity, shape.head_dim)[:, :, : shape.keys]
    return query, key, value


def causal_by_counting(queries: int, keys: int) -> Tensor:
    past = keys - queries
    return torch.tensor([[key <= past + query for key in range(keys)] for query in range(queries)])


def written_out(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor, scale: float, dtype: torch.dtype
) -> Tensor:
    """Float64 throughout for dtype float64; else rounded to `dtype` where the reference rounds."""

    def rounded(wide: Tensor) -> Tensor:
        return wide.to(dtype).double()

    group = query.shape[1] // key.shape[1]
    kv_head_of = [head // group for head in range(query.shape[1])]
    keys, values = key[:, kv_head_of].double(), value[:, kv_head_of].double()
    scores = rounded(rounded(query.double() @ keys.mT) * scale)
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True)) * visible
    weights = rounded(exponentials / exponentials.sum(-1, keepdim=True))
    return rounded(weights @ values)


@pytest.fixture
def check(assert_op_close, left_unmodified) -> Callable[..., None]:
    """In float32 the numbers must agree. In half precision, where one rounded score moves a whole
    row, the largest error may be twice that of the formula rounded step by step, plus a rounding.
    """

    def check(
        candidate: Attention,
        inputs: tuple[Tensor, Tensor, Tensor],
        mask: Tensor | None = None,
        scale: float | None = None,
    ) -> None:
        query, key, _ = inputs
        dtype = query.dtype
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        visible = causal_by_counting(query.shape[2], key.shape[2]) if mask is None else mask
        exact = written_out(*inputs, visible, scale, torch.float64)

        with left_unmodified(*inputs, visible):
            actual = candidate(*inputs, mask, scale)
        assert actual.shape == query.shape
        assert actual.dtype == dtype
        if dtype == torch.float32:
            assert_op_close(actual, exact.float())
            return
        stepwise = written_out(*inputs, visible, scale, dtype)
        budget = 2 * (stepwise - exact).abs().max() + torch.finfo(dtype).eps * exact.abs().max()
        error = (actual.double() - exact).abs().max()
        assert error <= budget, f"not close: largest error {error}, at most {budget} allowed"

    return check


@pytest.mark.parametrize("attention", EVERY)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_the_formula(check, attention, shape, dtype):
    check(attention, make_inputs(shape, dtype))


@pytest.mark.gate
@pytest.mark.parametrize("attention", EVERY)
def test_equals_the_formula_on_a_large_batch(check, attention):
    check(attention, make_inputs(LARGE, torch.float32))


@pytest.mark.parametrize("attention", EVERY)
def test_takes_contiguous_inputs_and_any_scale(check, attention):
    query, key, value = make_inputs(FILLED_CACHE, torch.float32)
    check(attention, (query.contiguous(), key.contiguous(), value.contiguous()), scale=0.3)


def mask_shapes() -> dict[str, Tensor]:
    """Masks for two rows, four heads, three queries on nineteen keys; no query sees nothing."""
    generator = torch.Generator().manual_seed(0)
    causal = causal_by_counting(3, 19)
    not_padding = torch.ones(2, 1, 1, 19, dtype=torch.bool)
    not_padding[0, ..., :5] = False
    not_padding[1, ..., :11] = False
    return {
        "left padding, causal": not_padding & causal,
        "left padding alone": not_padding,
        "one for all": causal,
        "per head": (torch.rand(2, 4, 3, 19, generator=generator) > 0.5) | causal,
        "everything": torch.ones(1, 1, dtype=torch.bool),
    }


@pytest.mark.parametrize("attention", EVERY)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", mask_shapes().values(), ids=mask_shapes().keys())
def test_an_explicit_mask_is_true_where_a_query_may_look(check, attention, mask, dtype):
    check(attention, make_inputs(FILLED_CACHE, dtype), mask)


# Broken twins


def heads_tiled(query, key, value, mask, scale):
    groups = query.shape[1] // key.shape[1]
    return eager_attention(
        query, key.repeat(1, groups, 1, 1), value.repeat(1, groups, 1, 1), mask, scale
    )


def mask_one_late(query, key, value, mask, scale):  # noqa: ARG001
    late = causal_by_counting(query.shape[2], key.shape[2]).roll(1, dims=-1)
    late[:, 0] = True
    return eager_attention(query, key, value, late, scale)


def own_position_hidden(query, key, value, mask, scale):  # noqa: ARG001
    strict = causal_by_counting(query.shape[2], key.shape[2]).roll(-1, dims=-1)
    strict[:, -1] = False
    return eager_attention(query, key, value, strict, scale)


def aligned_with_the_first_keys(query, key, value, mask, scale):  # noqa: ARG001
    upper_left = causal_by_counting(key.shape[2], key.shape[2])[: query.shape[2]]
    return eager_attention(query, key, value, upper_left, scale)


def mask_dropped(query, key, value, mask, scale):  # noqa: ARG001
    return eager_attention(query, key, value, None, scale)


def mask_inverted(query, key, value, mask, scale):
    return eager_attention(query, key, value, ~mask, scale)


def scale_forgotten(query, key, value, mask, scale):  # noqa: ARG001
    return eager_attention(query, key, value, mask, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [FILLED_CACHE, Shape(1, 28, 4, 128, 19, 99)], ids=str)
@pytest.mark.parametrize(
    "broken",
    [
        heads_tiled,
        mask_one_late,
        own_position_hidden,
        aligned_with_the_first_keys,
        scale_forgotten,
    ],
)
def test_a_broken_attention_fails_the_comparison(check, broken, shape, dtype):
    with pytest.raises(AssertionError, match="not close"):
        check(broken, make_inputs(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["left padding, causal", "left padding alone", "per head"])
def test_an_attention_that_drops_or_inverts_the_mask_fails_the_comparison(check, name, dtype):
    mask = mask_shapes()[name]
    for broken in (mask_dropped, mask_inverted):
        with pytest.raises(AssertionError, match="not close"):
            check(broken, make_inputs(FILLED_CACHE, dtype), mask)


# Rounding order of the reference


def softmax_of_unrounded_scores(query, key, value, mask, scale):
    return eager_attention(query.float(), key.float(), value.float(), mask, scale).to(query.dtype)


def scale_before_the_scores(query, key, value, mask, scale):
    return eager_attention(query * scale, key, value, mask, 1.0)


@pytest.mark.parametrize("dtype", HALF)
def test_eager_rounds_scores_scaled_scores_and_weights_to_the_input_dtype(
    assert_same_rounding, dtype
):
    inputs = make_inputs(Shape(2, 12, 2, 128, 2, 19), dtype)
    visible = causal_by_counting(2, 19)
    scale = 128**-0.5  # no power of two: scaling rounds
    expected = written_out(*inputs, visible, scale, dtype).to(dtype)
    assert_same_rounding(eager_attention(*inputs, None, scale), expected)
    for broken in (softmax_of_unrounded_scores, scale_before_the_scores):
        with pytest.raises(AssertionError, match="not close"):
            assert_same_rounding(broken(*inputs, None, scale), expected)
