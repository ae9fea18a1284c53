"""The largest difference is found, placed and judged."""

import math

import pytest
import torch

from augur_proof import EXACT, Tolerance, difference

REFERENCE = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def moved(row: int, column: int, by: float) -> torch.Tensor:
    ours = REFERENCE.clone()
    ours[row, column] += by
    return ours


def test_equal_tensors_hold_and_differ_nowhere():
    found = difference(REFERENCE.clone(), REFERENCE, EXACT)
    assert (found.largest, found.ulps, found.num_differing, found.held) == (0.0, 0, 0, True)


def test_the_largest_of_several_differences_is_placed():
    ours = moved(0, 1, 0.25)
    ours[1, 2] -= 0.5
    found = difference(ours, REFERENCE, EXACT)
    assert found.index == (1, 2)
    assert (found.largest, found.ours, found.reference) == (0.5, -6.5, -6.0)
    assert (found.num_differing, found.num_values, found.held) == (2, 6, False)


def test_one_ulp_is_not_equality():
    ours = REFERENCE.clone()
    ours[0, 2] = torch.nextafter(ours[0, 2], torch.tensor(math.inf))
    found = difference(ours, REFERENCE, EXACT)
    assert (found.ulps, found.num_differing, found.held) == (1, 1, False)


@pytest.mark.parametrize(
    ("tolerance", "bound"),
    [
        (Tolerance(0.5), 0.5),
        (Tolerance(0.5, relative=0.25), 0.5 + 0.25 * 5.0),
        (Tolerance(0.5, of_peak=0.25), 0.5 + 0.25 * 6.0),  # the peak of its own row
    ],
)
def test_a_tolerance_ends_where_its_formula_says(tolerance, bound):
    assert difference(moved(1, 1, bound), REFERENCE, tolerance).held
    assert not difference(moved(1, 1, bound * 1.01), REFERENCE, tolerance).held


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_on_one_side_alone_is_never_held(value):
    ours = REFERENCE.clone()
    ours[0, 0] = value
    found = difference(ours, REFERENCE, Tolerance(1e30))
    assert found.largest == math.inf
    assert found.index == (0, 0)
    assert not found.held
    assert not difference(REFERENCE, ours, Tolerance(1e30, 0.5, of_peak=0.5)).held


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_on_both_sides_is_equal(value):
    both = torch.tensor([value, 1.0])
    assert difference(both, both.clone(), EXACT).held


def test_dtypes_may_differ_and_then_no_ulps_are_counted():
    found = difference(torch.tensor([0.1], dtype=torch.bfloat16), torch.tensor([0.1]), EXACT)
    as_bfloat16 = float(torch.tensor(0.1, dtype=torch.bfloat16))
    assert found.largest == abs(as_bfloat16 - float(torch.tensor(0.1))) > 0
    assert (found.ulps, found.held) == (None, False)
