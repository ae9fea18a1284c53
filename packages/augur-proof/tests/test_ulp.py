"""ULPs count the representable numbers between two."""

import math

import pytest
import torch

from augur_proof.ulp import ulp_distance

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def distance(left: torch.Tensor, right: torch.Tensor) -> int:
    return int(ulp_distance(left[None], right[None]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [1.0, -1.0, 0.0, -0.0, 2.0, 0.3, -1024.0])
def test_the_next_number_up_is_one_ulp_away(value, dtype):
    here = torch.tensor(value, dtype=dtype)
    above = torch.nextafter(here, torch.tensor(math.inf, dtype=dtype))
    assert distance(here, above) == distance(above, here) == 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_both_zeros_are_one_place(dtype):
    zero = torch.tensor(0.0, dtype=dtype)
    assert distance(zero, -zero) == 0


def test_the_way_through_zero_is_counted():
    smallest = torch.nextafter(torch.tensor(0.0), torch.tensor(1.0))
    assert distance(-smallest, smallest) == 2


def test_a_doubling_is_as_many_ulps_as_the_fraction_has_values():
    pair = torch.tensor([1.0, 2.0])
    assert [distance(*pair.to(dtype)) for dtype in DTYPES] == [2**23, 2**7, 2**10]
