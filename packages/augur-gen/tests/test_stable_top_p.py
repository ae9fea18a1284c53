"""top_p with a rule for equals."""

import math

import pytest
import torch
from torch import Tensor

from augur_gen.logit_processors import apply_top_p
from augur_gen.stable_top_p import apply_top_p_stably, ascending_order

INF = math.inf


def random_logits(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3


HARD = {
    "random": random_logits(0, 3, 1000),
    "large": random_logits(1, 1, 50000),
    "equals": (random_logits(2, 3, 1000) / 2).round(),
    "all equal": torch.zeros(2, 100),
    "both zeros": torch.tensor([[0.0, -0.0, 0.0, -0.0, -1.0, 1.0]]),
    "infinities": random_logits(3, 2, 300).masked_fill(random_logits(4, 2, 300) > 0, -INF),
    "extremes": torch.tensor([[3.4e38, -3.4e38, 1e-45, -1e-45, 0.0, -INF, 1.5, -1.5]]),
    "one": torch.tensor([[-2.0]]),
}


@pytest.mark.parametrize("name", HARD)
def test_the_order_is_ascending_and_the_lowest_id_of_equals_comes_last(name):
    descending = HARD[name].argsort(dim=-1, stable=True, descending=True)
    assert torch.equal(ascending_order(HARD[name]), descending.flip(-1))


@pytest.mark.parametrize("top_p", [0.0, 0.01, 0.3, 0.8, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("name", ["random", "large"])
def test_without_equals_it_is_the_plain_top_p_to_the_bit(name, top_p):
    logits = HARD[name]
    assert torch.equal(apply_top_p_stably(logits, top_p), apply_top_p(logits, top_p))


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.8, 0.95])
@pytest.mark.parametrize("name", HARD)
def test_with_equals_the_same_logits_are_left(name, top_p):
    stable, plain = (cut(HARD[name], top_p) for cut in (apply_top_p_stably, apply_top_p))
    assert torch.equal(stable.sort().values, plain.sort().values)


def test_of_equals_at_the_cut_the_lowest_ids_stay():
    logits = torch.tensor([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]])
    left = apply_top_p_stably(logits, 0.5)
    assert (left > -INF).nonzero()[:, 1].tolist() == [0, 2, 3]
