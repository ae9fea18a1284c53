"""Each module by itself equals transformers' eager module to the last bit."""

from typing import Any

import pytest
import torch
from torch import Tensor

from augur_model.ops import repeat_kv
from augur_proof import (
    attention_outputs,
    block_outputs,
    check_same_bits,
    hidden_states,
    mlp_outputs,
    norm_outputs,
    rotary_tables,
    rotated_heads,
    tiny_config,
)

modeling_qwen2 = pytest.importorskip("transformers.models.qwen2.modeling_qwen2")

LAYOUTS = ("contiguous", "transposed", "gaps")
SHAPES = ((1, 1), (5, 1), (2, 2), (5, 19), (1, 99), (2, 257))
"""(batch, length)"""

# Hidden size, query heads, key/value heads, head_dim. The first four are published sizes, of which
# the gate runs the large; in the last two, head_dim is not hidden size over heads.
WIDTHS = (
    (896, 14, 2, 64),
    pytest.param((1536, 12, 2, 128), marks=pytest.mark.gate),
    pytest.param((3584, 28, 4, 128), marks=pytest.mark.gate),
    pytest.param((2048, 16, 8, 128), marks=pytest.mark.gate),
    (64, 1, 1, 64),
    (32, 4, 2, 16),
    (96, 4, 2, 64),
)

each_dtype = pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.gate)],
    ids=str,
)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_shape = pytest.mark.parametrize(("batch", "length"), SHAPES)


def _config(
    hidden: int, heads: int, kv_heads: int, head_dim: int, intermediate: int = 160
) -> dict[str, Any]:
    return tiny_config(
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=intermediate,
    )


def _norm_weight(width: int, dtype: torch.dtype) -> Tensor:
    return 1 + torch.randn(width, generator=torch.Generator().manual_seed(2)).to(dtype) / 2


@each_dtype
@each_layout
@pytest.mark.parametrize("width", [32, 896, 1536, 3584])
def test_rms_norm_equals_transformers(width: int, layout: str, dtype: torch.dtype) -> None:
    for batch, length in SHAPES:
        inputs = hidden_states(batch, length, width, dtype, layout)
        check_same_bits(*norm_outputs(inputs, _norm_weight(width, dtype)))


@each_dtype
def test_rms_norm_of_small_inputs_goes_by_its_epsilon(dtype: torch.dtype) -> None:
    inputs = hidden_states(2, 19, 32, dtype) / 1000
    small = norm_outputs(inputs, _norm_weight(32, dtype), eps=1e-6)
    large = norm_outputs(inputs, _norm_weight(32, dtype), eps=1e-2)
    check_same_bits(*small)
    check_same_bits(*large)
    assert not torch.allclose(small.found, large.found, rtol=0.5)


@each_dtype
@pytest.mark.parametrize("rope_theta", [10_000.0, 1_000_000.0])
@pytest.mark.parametrize("head_dim", [16, 64, 128])
def test_rotary_embedding_equals_transformers(
    head_dim: int, rope_theta: float, dtype: torch.dtype
) -> None:
    config = tiny_config(
        head_dim=head_dim, rope_parameters={"rope_type": "default", "rope_theta": rope_theta}
    )
    positions = torch.tensor([[0, 15, 257, 4095, 32767], [3, 4, 256, 4096, 32766]])
    cos, sin = rotary_tables(config, positions, dtype)
    check_same_bits(*cos)
    check_same_bits(*sin)
    # As attention has them: a transposed view, heads in front of positions.
    heads = hidden_states(2, 5, 4 * head_dim, dtype).view(2, 5, 4, head_dim).transpose(1, 2)
    rotated = rotated_heads(heads, cos.expected, sin.expected)
    check_same_bits(*rotated)
    assert not torch.equal(rotated.found[1, :, 0], heads[1, :, 0])


def test_neighbouring_query_heads_share_a_key_value_head() -> None:
    heads = hidden_states(2, 5, 2 * 8, torch.float32).view(2, 5, 2, 8).transpose(1, 2)
    repeated = repeat_kv(heads, 2)
    check_same_bits(repeated, modeling_qwen2.repeat_kv(heads, 2))
    for query_head, kv_head in enumerate((0, 0, 1, 1)):
        check_same_bits(repeated[:, query_head], heads[:, kv_head])


@each_dtype
@each_shape
def test_attention_of_any_length_and_batch_equals_transformers(
    batch: int, length: int, dtype: torch.dtype
) -> None:
    config = _config(32, 4, 2, 8)
    check_same_bits(*attention_outputs(config, hidden_states(batch, length, 32, dtype)))


@each_dtype
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_attention_of_any_width_equals_transformers(
    widths: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    inputs = hidden_states(2, 19, widths[0], dtype)
    check_same_bits(*attention_outputs(_config(*widths), inputs))


@each_dtype
@pytest.mark.parametrize("widths", [(896, 14, 2, 64), (64, 1, 1, 64)], ids=str)
def test_attention_over_a_cache_equals_transformers(
    widths: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    inputs = hidden_states(2, 19, widths[0], dtype)
    check_same_bits(*attention_outputs(_config(*widths), inputs, sizes=(12, 1, 5, 1)))


@each_dtype
@each_shape
def test_mlp_of_any_length_and_batch_equals_transformers(
    batch: int, length: int, dtype: torch.dtype
) -> None:
    check_same_bits(*mlp_outputs(tiny_config(), hidden_states(batch, length, 32, dtype)))


@each_dtype
@pytest.mark.parametrize(
    ("hidden", "intermediate"),
    [
        (896, 4864),
        pytest.param(1536, 8960, marks=pytest.mark.gate),
        pytest.param(3584, 2048, marks=pytest.mark.gate),
    ],
)
def test_mlp_of_any_width_equals_transformers(
    hidden: int, intermediate: int, dtype: torch.dtype
) -> None:
    config = tiny_config(hidden_size=hidden, intermediate_size=intermediate)
    check_same_bits(*mlp_outputs(config, hidden_states(2, 19, hidden, dtype)))


@each_dtype
@each_shape
def test_decoder_block_of_any_length_and_batch_equals_transformers(
    batch: int, length: int, dtype: torch.dtype
) -> None:
    check_same_bits(*block_outputs(tiny_config(), hidden_states(batch, length, 32, dtype)))


@each_dtype
@pytest.mark.parametrize("sizes", [None, (12, 1, 5, 1)], ids=["whole", "cached"])
def test_decoder_block_of_real_width_equals_transformers(
    sizes: tuple[int, ...] | None, dtype: torch.dtype
) -> None:
    config = _config(896, 14, 2, 64, intermediate=4864)
    check_same_bits(*block_outputs(config, hidden_states(2, 19, 896, dtype), sizes=sizes))


@each_dtype
@each_layout
def test_strided_inputs_give_what_transformers_gives_and_stay_as_they_are(
    layout: str, dtype: torch.dtype
) -> None:
    config = _config(96, 4, 2, 64)
    inputs = hidden_states(2, 19, 96, dtype, layout)
    assert inputs.is_contiguous() == (layout == "contiguous")
    before = inputs.clone()
    check_same_bits(*norm_outputs(inputs, _norm_weight(96, dtype)))
    check_same_bits(*attention_outputs(config, inputs))
    check_same_bits(*mlp_outputs(config, inputs))
    check_same_bits(*block_outputs(config, inputs))
    check_same_bits(inputs, before)
