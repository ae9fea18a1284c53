"""Draws follow the softmax."""

import math

import pytest
import torch
from torch import Tensor

from augur_gen import GenerationError, draw

INF = math.inf
NUM_DRAWS = 200_000
JUST_BELOW_ONE = 1 - 2**-53


def uniforms(seed: int, count: int) -> Tensor:
    return torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def chi_square_p_value(counts: Tensor, probabilities: Tensor) -> float:
    """How likely counts at least as far off are; tokens that cannot be drawn must not be there."""
    possible = probabilities > 0
    assert not counts[~possible].any()
    expected = probabilities[possible].double() * counts.sum()
    assert (expected >= 5).all(), "too few draws for the test to hold"
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    degrees_of_freedom = torch.tensor((int(possible.sum()) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees_of_freedom, statistic / 2))


LOGITS = {
    "random": torch.randn(50, generator=torch.Generator().manual_seed(0)),
    "excluded": torch.tensor([-INF, 1.0, -INF, 0.0, 2.0, -INF]),
    "equal": torch.zeros(64),
    "rare": torch.tensor([0.0, -7.0, -8.0, 0.5]),
    "large": torch.tensor([1000.0, 1001.0, 999.0]),
}


def draw_many(logits: Tensor, seed: int) -> Tensor:
    return draw(logits.expand(NUM_DRAWS, -1), uniforms(seed, NUM_DRAWS))


@pytest.mark.parametrize("name", LOGITS)
def test_two_hundred_thousand_draws_have_the_distribution_of_the_softmax(name):
    counts = draw_many(LOGITS[name], seed=1).bincount(minlength=len(LOGITS[name]))
    assert chi_square_p_value(counts, LOGITS[name].softmax(-1)) > 1e-3


@pytest.mark.parametrize("off", [lambda logits: logits / 1.05, lambda logits: logits.roll(1)])
def test_a_distribution_that_is_a_little_off_would_be_noticed(off):
    counts = draw_many(off(LOGITS["random"]), seed=1).bincount(minlength=50)
    assert chi_square_p_value(counts, LOGITS["random"].softmax(-1)) < 1e-6


@pytest.mark.parametrize(
    ("logits", "first", "last"),
    [
        ([0.0, 0.0, 0.0], 0, 2),
        ([-INF, 0.0, 0.0, -INF], 1, 2),
        ([-200.0, 0.0, -200.0], 1, 1),
        ([-INF, -5.0, -INF], 1, 1),
        ([0.0, -30.0], 0, 1),
    ],
)
def test_the_least_and_greatest_random_number_draw_the_first_and_last_possible_token(
    logits, first, last
):
    ends = torch.tensor([0.0, JUST_BELOW_ONE], dtype=torch.float64)
    assert draw(torch.tensor([logits, logits]), ends).tolist() == [first, last]


def test_the_greatest_random_number_draws_a_token_that_is_there_whatever_the_total():
    for size in range(1, 300):
        logits = torch.full((1, size + 1), -1e-3)
        logits[0, 0], logits[0, -1] = 0.0, -INF
        assert int(draw(logits, torch.tensor([JUST_BELOW_ONE], dtype=torch.float64))) == size - 1


def test_a_token_of_one_in_ten_billion_gets_its_share():
    """A sum in float32 could not tell it from nothing: its steps near 1 are larger than that."""
    logits = torch.tensor([[0.0, math.log(1e-10)]])
    before, after = (torch.tensor([1 - share], dtype=torch.float64) for share in (2e-10, 0.5e-10))
    assert (int(draw(logits, before)), int(draw(logits, after))) == (0, 1)


def test_rows_are_drawn_each_by_its_own_number_and_in_any_company():
    logits = torch.randn(5, 30, generator=torch.Generator().manual_seed(3))
    numbers = uniforms(4, 5)
    together = draw(logits, numbers)
    alone = [int(draw(logits[row : row + 1], numbers[row : row + 1])) for row in range(5)]
    assert together.tolist() == alone
    assert together.dtype == torch.int64


@pytest.mark.parametrize("wrong", [[-INF, -INF], [0.0, math.nan], [INF, 0.0]])
def test_a_row_nothing_can_be_drawn_from_is_refused(wrong):
    with pytest.raises(GenerationError, match=r"no token can be chosen: .*\[0.0, (-inf|nan|inf)\]"):
        draw(torch.tensor([[0.0, 0.0], wrong]), uniforms(0, 2))
