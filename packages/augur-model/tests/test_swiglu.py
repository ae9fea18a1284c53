"""SwiGLU against its formula written out in float64, rounded where the op says it rounds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from augur_model.ops import swiglu

Gate = Callable[[Tensor, Tensor], Tensor]
HALF = [torch.bfloat16, torch.float16]
DTYPES = [torch.float32, *HALF]
SHAPES = [(1, 1, 4864), (2, 19, 896), (5, 2, 257), (1, 99, 1)]


def written_out(gate: Tensor, up: Tensor) -> Tensor:
    wide = gate.double()
    activated = (wide / (1 + torch.exp(-wide))).to(gate.dtype)
    return (activated.double() * up.double()).to(gate.dtype)


def make_inputs(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Gates far enough out that the sigmoid comes close to 0 and 1.

    `up` is made of powers of two, so that an activation on a rounding boundary comes out at most
    one unit in the last place off, not one and a half.
    """
    generator = torch.Generator().manual_seed(sum(shape))
    gate = torch.randn(shape, generator=generator) * 5
    up = (-2.0) ** torch.randint(-3, 2, shape, generator=generator)
    return gate.to(dtype), up.to(dtype)


@pytest.fixture
def check(assert_op_close, left_unmodified) -> Callable[..., None]:
    def check(candidate: Gate, gate: Tensor, up: Tensor) -> None:
        with left_unmodified(gate, up):
            actual = candidate(gate, up)
        assert_op_close(actual, written_out(gate, up))

    return check


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_formula(check, shape, dtype):
    check(swiglu, *make_inputs(shape, dtype))


def test_takes_the_two_halves_of_one_projection_as_they_lie(check):
    both = torch.cat(make_inputs((2, 19, 896), torch.float32), dim=-1)
    check(swiglu, *both.chunk(2, dim=-1))


def other_activation(gate: Tensor, up: Tensor) -> Tensor:
    return functional.gelu(gate) * up


def gate_and_up_swapped(gate: Tensor, up: Tensor) -> Tensor:
    return swiglu(up, gate)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("broken", [other_activation, gate_and_up_swapped])
def test_a_broken_gate_fails_the_comparison(check, broken, dtype):
    with pytest.raises(AssertionError, match="not close"):
        check(broken, *make_inputs((2, 19, 896), dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_the_activation_is_rounded_before_it_is_multiplied(assert_same_rounding, dtype):
    gate, up = make_inputs((2, 19, 896), dtype)
    up = up * torch.linspace(1, 2, 896).to(dtype)
    assert_same_rounding(swiglu(gate, up), written_out(gate, up))
    rounded_once = swiglu(gate.float(), up.float()).to(dtype)
    with pytest.raises(AssertionError, match="not close"):
        assert_same_rounding(rounded_once, written_out(gate, up))
