"""Greedy is the raw argmax."""

import math

import pytest
import torch

from augur_gen import GenerationError, greedy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_greedy_is_the_largest_logit_of_each_row(dtype):
    logits = torch.tensor([[0.5, -1.0, 3.0], [-3.0, -2.0, -2.5]], dtype=dtype)
    chosen = greedy(logits)
    assert chosen.tolist() == [2, 1]
    assert chosen.dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tied", [[0, 999], [3, 7, 500], list(range(1000))], ids=len)
def test_the_lowest_id_wins_a_tie(tied, dtype):
    logits = torch.zeros(1, 1000, dtype=dtype)
    logits[0, tied] = 1.0
    assert greedy(logits).tolist() == tied[:1]


def test_an_excluded_token_is_never_chosen():
    assert greedy(torch.tensor([[-math.inf, -1e30, -math.inf]])).tolist() == [1]


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_logit_that_is_no_number_is_an_error(wrong):
    logits = torch.zeros(2, 5)
    logits[1, 3] = wrong
    with pytest.raises(GenerationError, match=r"largest logit of each row is \[0\.0, (nan|inf)\]"):
        greedy(logits)


def test_a_row_without_any_candidate_is_an_error():
    with pytest.raises(GenerationError, match="no token can be chosen"):
        greedy(torch.full((1, 5), -math.inf))
