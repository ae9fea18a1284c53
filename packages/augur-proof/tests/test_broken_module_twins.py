"""The module comparisons catch what they are there for: each broken op fails them."""

import pytest
import torch

from augur_model import EAGER
from augur_proof import (
    LOW_BIT_TWINS,
    ONE_OP,
    PREFILL_TWINS,
    ComparisonError,
    attention_outputs,
    block_outputs,
    check_both_fail,
    check_close,
    check_same_bits,
    hidden_states,
    mlp_outputs,
    norm_outputs,
    rotary_tables,
    rotated_heads,
    tiny_config,
)
from augur_proof.broken_twins import ATTENTION_TWINS, MLP_TWINS, NORM_TWINS, ROTATION_TWINS

pytest.importorskip("transformers")

each_dtype = pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.gate)],
    ids=str,
)


@each_dtype
@pytest.mark.parametrize("name", NORM_TWINS)
def test_a_broken_norm_fails(name: str, dtype: torch.dtype) -> None:
    inputs = hidden_states(2, 19, 32, dtype) / 300
    weight = torch.ones(32, dtype=dtype)
    check_close(*norm_outputs(inputs, weight), ONE_OP[dtype])
    check_both_fail(*norm_outputs(inputs, weight, ops=NORM_TWINS[name]), ONE_OP[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_norm_that_multiplies_before_rounding_fails_equality(dtype: torch.dtype) -> None:
    weight = 1 + torch.rand(32, generator=torch.Generator().manual_seed(0)).to(dtype)
    ops = LOW_BIT_TWINS["norm weight before rounding"]
    with pytest.raises(ComparisonError):
        check_same_bits(*norm_outputs(hidden_states(2, 19, 32, dtype), weight, ops=ops))


@each_dtype
@pytest.mark.parametrize("name", ROTATION_TWINS)
def test_a_broken_rotation_fails(name: str, dtype: torch.dtype) -> None:
    cos, sin = rotary_tables(tiny_config(), torch.tensor([[3, 15], [4, 257]]), dtype)
    heads = hidden_states(2, 2, 32, dtype).view(2, 2, 4, 8).transpose(1, 2)
    check_close(*rotated_heads(heads, cos.expected, sin.expected), ONE_OP[dtype])
    broken = rotated_heads(heads, cos.expected, sin.expected, ROTATION_TWINS[name])
    check_both_fail(*broken, ONE_OP[dtype])


@each_dtype
def test_rotary_tables_of_neighbouring_positions_fail(dtype: torch.dtype) -> None:
    positions = torch.tensor([[3, 257, 4095]])
    tables = rotary_tables(tiny_config(), positions, dtype)
    shifted = rotary_tables(tiny_config(), positions + 1, dtype)
    for right, wrong in zip(tables, shifted, strict=True):
        check_both_fail(wrong.found, right.expected, ONE_OP[dtype])


@each_dtype
@pytest.mark.parametrize("sizes", [None, (6, 1, 1, 1)], ids=["prefill", "decode"])
@pytest.mark.parametrize("name", {**ROTATION_TWINS, **ATTENTION_TWINS})
def test_broken_attention_fails(
    name: str, sizes: tuple[int, ...] | None, dtype: torch.dtype
) -> None:
    inputs = hidden_states(2, 9, 32, dtype)
    twin = {**ROTATION_TWINS, **ATTENTION_TWINS}[name]
    for outputs_of in (attention_outputs, block_outputs):
        right = outputs_of(tiny_config(), inputs, EAGER, sizes)
        check_close(*right, ONE_OP[dtype])
        wrong = outputs_of(tiny_config(), inputs, twin, sizes)
        check_both_fail(wrong.found[:, 6:], wrong.expected[:, 6:], ONE_OP[dtype])


@each_dtype
@pytest.mark.parametrize("name", PREFILL_TWINS)
def test_attention_that_sees_ahead_fails(name: str, dtype: torch.dtype) -> None:
    inputs = hidden_states(2, 9, 32, dtype)
    outputs = attention_outputs(tiny_config(), inputs, PREFILL_TWINS[name])
    check_both_fail(*outputs, ONE_OP[dtype])


@each_dtype
@pytest.mark.parametrize("name", MLP_TWINS)
def test_a_broken_mlp_fails(name: str, dtype: torch.dtype) -> None:
    inputs = hidden_states(2, 9, 32, dtype)
    check_close(*mlp_outputs(tiny_config(), inputs), ONE_OP[dtype])
    for outputs_of in (mlp_outputs, block_outputs):
        outputs = outputs_of(tiny_config(), inputs, MLP_TWINS[name])
        check_both_fail(*outputs, ONE_OP[dtype])
