"""Two answers compared: partings, near ties, divergence."""

import math

import pytest
import torch

from augur_proof import (
    EXACT,
    Answer,
    Demand,
    ProofError,
    Tolerance,
    compare,
)
from augur_proof.compare import first_parting, kl_divergence

TO_THE_BIT = Demand(EXACT, near_ties_may_part=False)


def answer(
    generated_ids: list[int], logits: list[list[float]], input_ids: tuple = (1, 2)
) -> Answer:
    return Answer("prompt", list(input_ids), generated_ids, torch.tensor(logits))


@pytest.mark.parametrize(
    ("left", "right", "parting"),
    [([], [], None), ([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([2], [], 0)],
)
def test_sequences_part_where_they_first_differ_be_it_in_length(left, right, parting):
    assert first_parting(left, right) == parting


def test_equal_answers_hold_with_zero_difference_and_zero_divergence():
    one = answer([0, 1], [[2.0, 1.0], [0.0, 3.0]])
    found = compare(one, one, TO_THE_BIT)
    assert found.held
    assert (found.logits.largest, found.kl_nats, found.num_steps) == (0.0, 0.0, 2)


def test_other_input_ids_fail_though_all_else_is_equal():
    one, other = answer([0], [[2.0, 1.0]]), answer([0], [[2.0, 1.0]], input_ids=(1, 3))
    found = compare(one, other, TO_THE_BIT)
    assert (found.id_parting, found.held) == (1, False)


def test_logits_after_the_parting_are_not_compared():
    one = answer([0, 0, 0], [[2.0, 1.0], [2.0, 1.0], [9.0, 0.0]])
    other = answer([0, 1, 1], [[2.0, 1.0], [2.0, 2.5], [0.0, 9.0]])
    found = compare(one, other, TO_THE_BIT)
    assert (found.token_parting, found.num_same_tokens, found.num_steps) == (1, 1, 2)
    assert (found.logits.largest, found.logits.index) == (1.5, (1, 1))
    assert found.margin == 0.5


def test_an_answer_that_ends_early_has_parted():
    one = answer([0, 0], [[2.0, 1.0], [2.0, 1.0]])
    found = compare(one, answer([0], [[2.0, 1.0]]), TO_THE_BIT)
    assert (found.token_parting, found.margin, found.held) == (1, None, False)


@pytest.mark.parametrize(("preferred_by", "held"), [(0.15, True), (0.25, False)])
def test_a_near_tie_may_part_within_what_the_tolerance_lets_both_logits_move(preferred_by, held):
    # Only the first row is known of the reference, as in a file.
    one = answer([0, 0], [[2.0, 1.0]])
    other = answer([0, 1], [[2.0, 1.0], [1.0, 1.0 + preferred_by]])
    found = compare(one, other, Demand(Tolerance(0.1), near_ties_may_part=True))
    assert (found.near_tie, found.held) == (held, held)
    assert not compare(one, other, Demand(Tolerance(0.1), near_ties_may_part=False)).held


def test_the_divergence_is_that_of_the_definition():
    p, q = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]
    by_hand = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    # Logits are logarithms up to a constant.
    found = kl_divergence(torch.tensor([p]).log() + 3.0, torch.tensor([q]).log() - 1.0)
    assert float(found) == pytest.approx(by_hand, rel=1e-6)


def test_models_with_different_vocabularies_are_not_compared():
    with pytest.raises(ProofError, match=r"2 logits .* and augur 3"):
        compare(answer([0], [[2.0, 1.0]]), answer([0], [[2.0, 1.0, 0.0]]), TO_THE_BIT)
