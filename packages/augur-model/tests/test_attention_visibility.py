"""Who reads whom: shared key/value heads, the causal order, and what a mask hides."""

import pytest
import torch
from torch import Tensor

from augur_model.ops import causal_mask, eager_attention, repeat_kv, sdpa_attention

BOTH = pytest.mark.parametrize("attention", [eager_attention, sdpa_attention])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
CPU = torch.device("cpu")


def make_inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Two rows of three queries, four heads, on seven keys, two heads."""
    generator = torch.Generator().manual_seed(0)
    sizes = [(2, 4, 3, 64), (2, 2, 7, 64), (2, 2, 7, 64)]
    query, key, value = (torch.randn(size, generator=generator).to(dtype) for size in sizes)
    return query, key, value


@BOTH
def test_query_heads_0_and_1_read_key_value_head_0(attention):
    value = torch.tensor([10.0, 20.0])[None, :, None, None].expand(1, 2, 5, 8)
    query, key = torch.zeros(1, 4, 1, 8), torch.zeros(1, 2, 5, 8)
    attended = attention(query, key, value, None, 1.0)
    assert attended[0, :, 0, 0].round().tolist() == [10.0, 10.0, 20.0, 20.0]


def test_repeat_kv_puts_the_copies_next_to_each_other():
    heads = torch.arange(3.0)[None, :, None, None]
    assert repeat_kv(heads, 2).flatten().tolist() == [0, 0, 1, 1, 2, 2]
    assert repeat_kv(heads, 1).flatten().tolist() == [0, 1, 2]


def test_the_causal_mask_lets_the_last_query_see_the_last_key():
    assert causal_mask(2, 4, CPU).tolist() == [
        [True, True, True, False],
        [True, True, True, True],
    ]
    assert causal_mask(1, 1, CPU).tolist() == [[True]]


@BOTH
@DTYPES
def test_what_a_mask_hides_cannot_be_felt(attention, dtype):
    query, key, value = make_inputs(dtype)
    mask = causal_mask(3, 7, CPU).repeat(2, 1, 1, 1)
    mask[0, ..., :2] = False
    mask[1, ..., :4] = False
    before = attention(query, key, value, mask, 0.125)
    for tensor in (key, value):
        tensor[0, :, :2] = 40.0
        tensor[1, :, :4] = -40.0
    assert torch.equal(attention(query, key, value, mask, 0.125), before)


@BOTH
@DTYPES
def test_a_padding_query_that_may_look_nowhere_gives_finite_numbers(attention, dtype):
    mask = causal_mask(3, 7, CPU).repeat(2, 1, 1, 1)
    mask[0, 0, 0] = False
    assert attention(*make_inputs(dtype), mask, 0.125).isfinite().all()
