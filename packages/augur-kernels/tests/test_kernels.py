"""Every kernel gives what the plain op gives, whatever sizes and strides, and leaves its inputs."""

import pytest
import torch
from torch import Tensor

from augur_kernels import TRITON_KERNELS, dequantise_int4, dequantise_int8
from augur_model.ops import (
    apply_rope,
    eager_f32_attention,
    inverse_frequencies,
    rms_norm,
    rope_tables,
    swiglu,
    within_window,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]

pytestmark = pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.gate)],
    ids=str,
)


def noise(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


@pytest.fixture
def run(interpreted):
    """`run(op, *arguments)`: the kernel's result; its inputs stay what they were."""

    def call(op: str, *arguments):
        before = [a.clone() if isinstance(a, Tensor) else a for a in arguments]
        given = interpreted(TRITON_KERNELS[op], *arguments)
        for argument, kept in zip(arguments, before, strict=True):
            assert not isinstance(kept, Tensor) or torch.equal(argument, kept), "an input changed"
        return given

    return call


def assert_rounded_alike(found: Tensor, plain: Tensor) -> None:
    """Within some units of float32's last place; in half precision equal but for rare ties."""
    assert found.dtype == plain.dtype
    assert found.shape == plain.shape
    if plain.dtype == torch.float32:
        torch.testing.assert_close(found, plain, atol=1e-6, rtol=1e-6)
    else:
        equal = (found == plain).double().mean()
        assert equal > 0.99, f"{equal:.1%} of the values are equal"


def test_rms_norm_of_rows_that_lie_apart(run, dtype):
    heads = noise(2, 5, 3, 64, dtype=dtype).transpose(1, 2)  # as Qwen3's queries
    weight = 1 + noise(64, dtype=dtype)
    assert_rounded_alike(run("rms_norm", heads, weight, 1e-6), rms_norm(heads, weight, 1e-6))


def test_rms_norm_of_an_odd_width(run, dtype):
    values, weight = noise(3, 97, dtype=dtype), noise(194, dtype=dtype)[::2]
    assert_rounded_alike(run("rms_norm", values, weight, 1e-2), rms_norm(values, weight, 1e-2))


def test_add_rms_norm_gives_the_rounded_sum_and_its_norm(run, dtype):
    values, residual = noise(2, 3, 896, dtype=dtype), noise(2, 896, 3, dtype=dtype).transpose(1, 2)
    weight = noise(896, dtype=dtype)
    normed, summed = run("add_rms_norm", values, residual, weight, 1e-6)
    assert torch.equal(summed, values + residual)
    assert_rounded_alike(normed, rms_norm(values + residual, weight, 1e-6))


@pytest.mark.parametrize("tables", [1, 2])
@pytest.mark.parametrize("head_dim", [64, 24])
def test_apply_rope_to_heads_inside(run, dtype, head_dim, tables):
    heads = noise(2, 19, 3, head_dim, dtype=dtype).transpose(1, 2)
    positions = torch.tensor([[4095], [0]])[:tables] + torch.arange(19)
    cos, sin = rope_tables(positions, inverse_frequencies(head_dim, 1e6), dtype)
    assert_rounded_alike(run("apply_rope", heads, cos, sin), apply_rope(heads, cos, sin))


def test_swiglu_of_the_two_halves_of_one_product(run, dtype):
    gate, up = noise(3, 2 * 2100, dtype=dtype).chunk(2, dim=-1)
    assert_rounded_alike(run("swiglu", 4 * gate, up), swiglu(4 * gate, up))


def attention_inputs(dtype, heads, kv_heads, head_dim, queries, keys):
    """Queries with their heads inside; keys and values of a cache with room left."""
    query = noise(2, queries, heads, head_dim, dtype=dtype).transpose(1, 2)
    key = noise(2, kv_heads, keys + 5, head_dim, dtype=dtype)[:, :, :keys]
    value = noise(2, kv_heads, keys + 6, head_dim, dtype=dtype)[:, :, :keys]
    return query, key, value


def assert_attended_alike(found: Tensor, plain: Tensor) -> None:
    """Against the formula in float32; here the weights are rounded to the dtype, and the result."""
    eps = torch.finfo(plain.dtype).eps
    torch.testing.assert_close(found, plain, atol=max(eps, 2e-6), rtol=2 * eps)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "queries", "keys"),
    [
        (14, 2, 64, 1, 300),  # decode: split over the keys
        (4, 2, 8, 3, 40),  # a few queries at once
        (1, 1, 16, 1, 1),
        (7, 1, 64, 19, 19),  # prefill
        (2, 2, 24, 66, 131),  # a chunk on a filled cache; more than one tile of each
    ],
)
def test_attention_sees_itself_and_what_came_before(
    run, dtype, heads, kv_heads, head_dim, queries, keys
):
    inputs = attention_inputs(dtype, heads, kv_heads, head_dim, queries, keys)
    found = run("attention", *inputs, None, 0.3)
    assert_attended_alike(found, eager_f32_attention(*inputs, None, 0.3))


@pytest.mark.parametrize("queries", [1, 37])
def test_attention_within_a_window_and_of_a_query_that_sees_nothing(run, dtype, queries):
    query, key, value = attention_inputs(dtype, 4, 2, 16, queries, 70)
    key, value, mask = within_window(key, value, None, queries, 11)
    if mask is None:  # a lone query sees all that the window leaves
        mask = torch.ones(1, key.shape[2], dtype=torch.bool)
    mask = mask.expand(2, 1, -1, -1).clone()
    mask[1, :, 0] = False
    found = run("attention", query, key, value, mask, 0.3)
    assert_attended_alike(found, eager_f32_attention(query, key, value, mask, 0.3))


@pytest.mark.parametrize("shared_by", ["group", "row"])
def test_int8_linear(run, dtype, shared_by):
    x, scales = noise(2, 3, 96, dtype=dtype), noise(19, 3).abs() / 1000
    scales = scales if shared_by == "group" else scales[:, 0]
    codes = torch.arange(19 * 96).view(96, 19).T.remainder(255).sub(127).to(torch.int8)
    weight = dequantise_int8(codes, scales)
    assert_product(run("int8_linear", x, codes, scales), x, weight)


def test_int4_linear(run, dtype):
    x, scales = noise(2, 96, dtype=dtype), noise(19, 3).abs() / 50
    codes = torch.arange(19 * 48).mul(7).view(19, 48).remainder(256).to(torch.uint8)
    assert_product(run("int4_linear", x, codes, scales), x, dequantise_int4(codes, scales))


def assert_product(found: Tensor, x: Tensor, weight: Tensor) -> None:
    plain = (x.double() @ weight.double().T).to(x.dtype)
    if x.dtype == torch.float32:
        torch.testing.assert_close(found, plain, atol=1e-5, rtol=1e-6)
    else:
        assert_rounded_alike(found, plain)


def test_nothing_in_gives_nothing_out(run, dtype):
    none = noise(0, 64, dtype=dtype)
    assert run("rms_norm", none, noise(64, dtype=dtype), 1e-6).shape == (0, 64)
    assert run("swiglu", none, none).shape == (0, 64)
    heads = noise(2, 4, 0, 16, dtype=dtype)
    tables = noise(1, 0, 16, dtype=dtype)
    assert run("apply_rope", heads, tables, tables).shape == heads.shape
    keys = noise(2, 2, 5, 16, dtype=dtype)
    assert run("attention", heads, keys, keys, None, 0.3).shape == heads.shape
