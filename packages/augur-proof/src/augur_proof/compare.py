"""One prompt, two networks: same ids, same tokens, how far the logits are apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from augur_proof.answer import Answer
from augur_proof.demand import Demand
from augur_proof.difference import Difference, difference
from augur_proof.errors import ProofError


@dataclass(frozen=True)
class Comparison:
    """What comparing two answers to one prompt came to.

    Attributes:
        reference: transformers' answer, its logits let go.
        candidate: augur's, likewise.
        id_parting: index of the first input id that differs; None where none does.
        token_parting: index of the first new token that differs; None where none does.
        margin: at the parting, by how much the candidate's own logits prefer its token; None
            where there is no parting or one side had ended.
        near_tie: whether the demand lets the tokens part there.
        rms_ratio: root mean square of the candidate's error against float32 over the reference's
            own; None where a tolerance is demanded.
        num_steps: rows of logits compared, those computed from equal tokens.
        logits: the largest difference among them; its index is (step, token id).
        kl_nats: largest Kullback-Leibler divergence of the candidate's distribution of the next
            token from the reference's.
    """

    reference: Answer
    candidate: Answer
    id_parting: int | None
    token_parting: int | None
    margin: float | None
    near_tie: bool
    rms_ratio: float | None
    num_steps: int
    logits: Difference
    kl_nats: float

    @property
    def held(self) -> bool:
        """Whether the candidate did what is demanded."""
        same_tokens = self.token_parting is None or self.near_tie
        return self.id_parting is None and same_tokens and self.logits_held

    @property
    def logits_held(self) -> bool:
        """Whether the logits are within the tolerance, or the budget."""
        if self.rms_ratio is None:
            return self.logits.held
        return self.rms_ratio <= allowed_rms_ratio(self.num_steps)

    @property
    def num_same_tokens(self) -> int:
        """New tokens before the parting."""
        if self.token_parting is None:
            return len(self.reference.generated_ids)
        return self.token_parting


def allowed_rms_ratio(num_steps: int) -> float:
    """The most that logits' error may be, over the reference's own, for so many rows.

    Two right computations in half precision err independently, each through all layers. A row's
    two errors differ by some tens of percent, the mean of many rows by a few.
    """
    return 1.25 + 0.75 / math.sqrt(num_steps)


def compare(
    reference: Answer, candidate: Answer, demand: Demand, exact: Tensor | None = None
) -> Comparison:
    """Compare the two; after the tokens part, logits are no longer comparable.

    Args:
        reference: transformers'.
        candidate: augur's.
        demand: the rule.
        exact: float32 logits of the same steps for the reference's tokens, if the demand is a
            budget.

    Raises:
        ProofError: the vocabularies differ in size.
    """
    if reference.logits.shape[1] != candidate.logits.shape[1]:
        raise ProofError(
            f"the reference has {reference.logits.shape[1]} logits for each token and augur "
            f"{candidate.logits.shape[1]}: these are different models"
        )
    parting = first_parting(reference.generated_ids, candidate.generated_ids)
    num_steps = min(len(reference.logits), len(candidate.logits))
    if parting is not None:
        num_steps = min(num_steps, parting + 1)
    expected, ours = reference.logits[:num_steps], candidate.logits[:num_steps]
    ratio = None
    if demand.budget and exact is not None:
        exact = exact[:num_steps].double()
        error, own = ((side.double() - exact).square().mean().sqrt() for side in (ours, expected))
        ratio = float((error / own).nan_to_num(nan=math.inf))
    margin, near_tie = _margin_at(parting, reference, candidate, demand)
    return Comparison(
        # A slice would keep all of the logits in memory.
        reference=replace(reference, logits=expected.new_empty(0)),
        candidate=replace(candidate, logits=ours.new_empty(0)),
        id_parting=first_parting(reference.input_ids, candidate.input_ids),
        token_parting=parting,
        margin=margin,
        near_tie=near_tie,
        rms_ratio=ratio,
        num_steps=num_steps,
        logits=difference(ours, expected, demand.tolerance),
        kl_nats=float(kl_divergence(expected, ours).max()),
    )


def first_parting(left: Sequence[int], right: Sequence[int]) -> int | None:
    """The first index at which two sequences differ, be it in length; None where they are equal."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))


def kl_divergence(reference: Tensor, candidate: Tensor) -> Tensor:
    """`sum p log(p / q)`, in nats: p and q are what the reference's logits and ours stand for.

    `[steps, vocab_size]` each -> `[steps]`, float64, 0 or more; exactly 0 for equal rows.
    """
    log_p = torch.log_softmax(reference.double(), dim=-1)
    log_q = torch.log_softmax(candidate.double(), dim=-1)
    # Rounding can leave a sum of tiny terms just below zero.
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1).clamp(min=0.0)


def _margin_at(
    parting: int | None, reference: Answer, candidate: Answer, demand: Demand
) -> tuple[float | None, bool]:
    """The candidate's preference at the parting, and whether the tolerance explains it."""
    sides = (candidate.generated_ids, reference.generated_ids)
    if parting is None or parting >= min(map(len, sides)):
        return None, False
    row = candidate.logits[parting].double()
    ours, theirs = (token_ids[parting] for token_ids in sides)
    if theirs >= len(row):
        return None, False
    margin = float(row[ours] - row[theirs])
    # Each of the two may have moved by its bound, towards the other.
    movable = demand.tolerance.bound(row)
    near_tie = demand.near_ties_may_part and margin <= float(movable[ours] + movable[theirs])
    return margin, near_tie
