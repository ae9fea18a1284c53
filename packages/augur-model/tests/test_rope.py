"""Rotary embedding against sines and cosines computed one by one and pairs turned one by one."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from augur_model import QwenConfig, QwenForCausalLM
from augur_model.ops import apply_rope, inverse_frequencies, rope_tables

Tables = Callable[[Tensor, Tensor, torch.dtype], tuple[Tensor, Tensor]]
Rotation = Callable[[Tensor, Tensor, Tensor], Tensor]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
POSITIONS = torch.tensor([[0, 15, 257, 4095, 32767]])


# Inverse frequencies


def check_frequencies(candidate: Callable[[int, float], Tensor], head_dim: int, theta: float):
    closed_form = [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]
    # No absolute part: the smallest frequencies are about 1e-6, and position 32767 needs them.
    torch.testing.assert_close(
        candidate(head_dim, theta), torch.tensor(closed_form), rtol=1.3e-6, atol=0
    )


@pytest.mark.parametrize("theta", [1e4, 1e6])
@pytest.mark.parametrize("head_dim", [2, 16, 64, 128])
def test_inverse_frequencies_equal_the_closed_form(head_dim, theta):
    check_frequencies(inverse_frequencies, head_dim, theta)


def test_broken_frequencies_fail_the_comparison():
    def rounded(head_dim: int, theta: float) -> Tensor:
        return inverse_frequencies(head_dim, theta).bfloat16().float()

    def half_exponent(head_dim: int, theta: float) -> Tensor:
        return inverse_frequencies(head_dim, theta**0.5)

    for broken in (rounded, half_exponent):
        with pytest.raises(AssertionError, match="not close"):
            check_frequencies(broken, 64, 1e6)


def test_inverse_frequencies_are_real_inside_a_meta_device():
    with torch.device("meta"):
        table = inverse_frequencies(64, 1e6)
    assert torch.equal(table, inverse_frequencies(64, 1e6))


def test_a_meta_built_models_frequencies_survive_the_making_of_its_memory(config_json):
    # Freed memory full of NaN, so that an uninitialised buffer would not be right by chance.
    dirt = [torch.full((size,), math.nan) for size in range(1, 256)]
    del dirt
    with torch.device("meta"):
        model = QwenForCausalLM(QwenConfig.from_dict(config_json | {"head_dim": 64}))
    model.to_empty(device="cpu")
    assert torch.equal(model.model.rotary_emb.inverse_frequencies, inverse_frequencies(64, 1e6))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_converting_the_model_leaves_the_frequencies_in_float32(make_model, dtype):
    model = make_model().to(dtype)
    assert model.dtype == dtype
    assert torch.equal(model.model.rotary_emb.inverse_frequencies, inverse_frequencies(8, 1e6))


# Tables


@pytest.fixture
def check_tables(assert_op_close, left_unmodified) -> Callable[..., None]:
    def check(candidate: Tables, positions: Tensor, head_dim: int, dtype: torch.dtype) -> None:
        frequencies = inverse_frequencies(head_dim, 1e6)
        cos = torch.empty(*positions.shape, head_dim, dtype=dtype)
        sin = torch.empty_like(cos)
        for index in range(head_dim):
            # Python multiplies in float64; the angle is rounded to float32 once.
            frequency = frequencies[index % (head_dim // 2)].item()
            products = [[position * frequency for position in row] for row in positions.tolist()]
            angles = torch.tensor(products, dtype=torch.float32).tolist()
            cos[..., index] = torch.tensor([[math.cos(angle) for angle in row] for row in angles])
            sin[..., index] = torch.tensor([[math.sin(angle) for angle in row] for row in angles])
        with left_unmodified(positions, frequencies):
            actual_cos, actual_sin = candidate(positions, frequencies, dtype)
        assert_op_close(actual_cos, cos)
        assert_op_close(actual_sin, sin)

    return check


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_tables_equal_the_sine_and_cosine_of_every_angle(check_tables, head_dim, dtype):
    check_tables(rope_tables, POSITIONS, head_dim, dtype)


def test_tables_follow_the_positions_of_every_row(check_tables):
    check_tables(rope_tables, torch.tensor([[5, 6, 7], [0, 0, 1]]), 64, torch.float32)
    check_tables(rope_tables, torch.arange(40).view(4, 10).T, 64, torch.float32)
    check_tables(rope_tables, torch.tensor([[3, 1, 2]], dtype=torch.int32), 64, torch.float32)


def interleaved_tables(positions: Tensor, frequencies: Tensor, dtype: torch.dtype):
    angles = (positions[..., None].float() * frequencies).repeat_interleave(2, dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def angles_in_bfloat16(positions: Tensor, frequencies: Tensor, dtype: torch.dtype):
    angles = positions[..., None].bfloat16() * frequencies.bfloat16()
    angles = torch.cat((angles, angles), -1).float()
    return angles.cos().to(dtype), angles.sin().to(dtype)


def one_position_late(positions: Tensor, frequencies: Tensor, dtype: torch.dtype):
    return rope_tables(positions + 1, frequencies, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", [interleaved_tables, angles_in_bfloat16, one_position_late])
def test_broken_tables_fail_the_comparison(check_tables, broken, dtype):
    with pytest.raises(AssertionError, match="not close"):
        check_tables(broken, POSITIONS, 64, dtype)


# Rotation


def rotated_pair_by_pair(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Dimension i turns with dimension i + half; products and sums are rounded to the dtype."""

    def rounded(wide: Tensor) -> Tensor:
        return wide.to(heads.dtype).double()

    half = heads.shape[-1] // 2
    rotated = torch.empty_like(heads)
    for i in range(half):
        first, second = heads[..., i].double(), heads[..., i + half].double()
        c, s = cos[:, None, :, i].double(), sin[:, None, :, i].double()
        rotated[..., i] = rounded(first * c) - rounded(second * s)
        rotated[..., i + half] = rounded(second * c) + rounded(first * s)
    return rotated


@pytest.fixture
def check_rotation(assert_op_close, left_unmodified) -> Callable[..., None]:
    def check(candidate: Rotation, heads: Tensor, cos: Tensor, sin: Tensor) -> None:
        with left_unmodified(heads, cos, sin):
            actual = candidate(heads, cos, sin)
        assert_op_close(actual, rotated_pair_by_pair(heads, cos, sin))

    return check


def make_inputs(
    batch: int, num_heads: int, length: int, head_dim: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Heads as a projection gives them, strided; positions that differ from row to row."""
    generator = torch.Generator().manual_seed(length)
    projected = torch.randn(batch, length, num_heads, head_dim, generator=generator)
    positions = torch.randint(1, 32768, (batch, length), generator=generator)
    cos, sin = rope_tables(positions, inverse_frequencies(head_dim, 1e6), dtype)
    return projected.to(dtype).transpose(1, 2), cos, sin


HEADS = [(1, 14, 1, 64), (2, 2, 19, 64), (5, 12, 2, 128), (1, 28, 99, 128), (2, 1, 257, 64)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", HEADS)
def test_rotation_turns_each_dimension_with_the_one_half_a_head_away(check_rotation, shape, dtype):
    check_rotation(apply_rope, *make_inputs(*shape, dtype))


def test_rotation_takes_contiguous_heads_and_one_row_of_positions_for_all(check_rotation):
    heads, cos, sin = make_inputs(5, 4, 19, 64, torch.float32)
    check_rotation(apply_rope, heads.contiguous(), cos[:1], sin[:1])


def interleaved_rotation(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Dimension 2i with 2i + 1: another layout of the same formula."""
    even, odd = heads[..., 0::2], heads[..., 1::2]
    half = heads.shape[-1] // 2
    c, s = cos[:, None, :, :half], sin[:, None, :, :half]
    return torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)


def turned_backwards(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return apply_rope(heads, cos, -sin)


def sine_and_cosine_swapped(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return apply_rope(heads, sin, cos)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "broken", [interleaved_rotation, turned_backwards, sine_and_cosine_swapped]
)
def test_a_broken_rotation_fails_the_comparison(check_rotation, broken, dtype):
    with pytest.raises(AssertionError, match="not close"):
        check_rotation(broken, *make_inputs(2, 2, 19, 64, dtype))
