"""Which tokens top_k, top_p and min_p leave, found among the largest few logits.

Finding the largest few of 150,000 logits takes a tenth of what it takes to sort them. What is found
is exactly what `apply_cuts` leaves: where the few do not reach, or rounding could decide otherwise,
the answer is None.
"""

import math
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from augur_gen.sampling_params import SamplingParams

# So many are done sooner in Python than PyTorch is called.
MOST = 128

# A narrow dtype makes many logits equal: so many after the k-th are looked at for its equals.
ROOM_FOR_EQUALS = 64

# `apply_cuts` adds float32 probabilities up: its sums of up to MOST numbers are off by less than
# this, and sums of more, in 8 lanes, by half an ulp for each number of a lane. A token closer to a
# limit is left to it.
ROUNDING = 1e-5
ROUNDING_PER_NUMBER = 2.0**-24 / 8


class Candidates(NamedTuple):
    """The tokens that may be drawn: logits `[n]`, float32, and ids `[n]`, int64 and ascending."""

    logits: Tensor
    token_ids: Tensor


class _Head(NamedTuple):
    """The largest logits with their ids, ascending, the lowest id last where equal.

    There are `num_others` tokens with smaller or equal logits; where the largest weighs 1, they
    weigh `rest` together.
    """

    tokens: list[tuple[float, int]]
    num_others: int = 0
    rest: float = 0.0


def few_candidates(logits: Tensor, params: SamplingParams) -> Candidates | None:
    """The tokens that `apply_cuts` with `apply_top_p_stably` leaves; None where it must be asked.

    Args:
        logits: `[vocab_size]`, float32, divided by the temperature, without NaN; one is finite.
        params: top_k, top_p and min_p are applied.

    Returns:
        on the CPU, whatever device the logits are on.
    """
    if params.top_k is not None and params.top_k < len(logits):
        head = _top_k(logits, params.top_k) if params.top_k <= MOST else None
    elif params.top_p < 1 or params.min_p > 0:
        head = _largest(logits)
    else:
        head = None
    num_removed = None if head is None else _num_removed(head, params)
    if head is None or num_removed is None:
        return None
    kept = sorted((token_id, logit) for logit, token_id in head.tokens[num_removed:])
    kept_ids, kept_logits = zip(*kept, strict=True)
    return Candidates(torch.tensor(kept_logits), torch.tensor(kept_ids))


def _top_k(logits: Tensor, top_k: int) -> _Head | None:
    """What top_k leaves, the rest gone; None where more may equal the k-th than were looked at."""
    tokens = _ascending(logits, top_k + ROOM_FOR_EQUALS)
    kth_largest = tokens[-top_k][0]
    if len(tokens) < len(logits) and tokens[0][0] == kth_largest > -math.inf:
        return None
    return _Head([token for token in tokens if token[0] >= kth_largest and token[0] > -math.inf])


def _largest(logits: Tensor) -> _Head:
    """The largest few, and what the rest weighs."""
    tokens = _ascending(logits, MOST)
    largest = tokens[-1][0]
    weight = float((logits - largest).exp().sum())
    rest = weight - sum(math.exp(logit - largest) for logit, _ in tokens)
    return _Head(tokens, len(logits) - len(tokens), max(0.0, rest))


def _ascending(logits: Tensor, count: int) -> list[tuple[float, int]]:
    largest, token_ids = logits.topk(min(count, len(logits)))
    pairs = zip(largest.tolist(), token_ids.tolist(), strict=True)
    return sorted(pairs, key=lambda pair: (pair[0], -pair[1]))


def _num_removed(head: _Head, params: SamplingParams) -> int | None:
    """How many of the head top_p and min_p remove; None where it cannot be told."""
    weights = [math.exp(logit - head.tokens[-1][0]) for logit, _ in head.tokens]
    num_removed = 0
    if params.top_p < 1:
        # The last one always stays, so it has no limit to be close to.
        *up_to_each, total = accumulate(weights, initial=head.rest)
        excess = [up_to / total - (1 - params.top_p) for up_to in up_to_each[1:]]
        margin = ROUNDING + ROUNDING_PER_NUMBER * head.num_others * head.rest / total
        if any(abs(share) < margin for share in excess):
            return None
        num_removed = sum(share <= 0 for share in excess)
    if params.min_p > 0:
        # Equals of the last one always stay.
        excess = [weight / params.min_p - 1 for weight in weights if weight < 1]
        if any(abs(ratio) < ROUNDING for ratio in excess):
            return None
        num_removed = max(num_removed, sum(ratio < 0 for ratio in excess))
    # One of the others may equal the head's smallest, and lies on the same side of the cut then.
    if head.num_others and head.tokens[num_removed][0] == head.tokens[0][0]:
        return None
    return num_removed
