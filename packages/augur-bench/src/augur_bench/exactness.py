"""What a rung costs: how far its logits are from the reference's on the same tokens.

The rung is fed the reference's tokens whatever it would have chosen, step by step as it decodes,
so every position compares like with like.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from augur_bench.errors import RungFailedError
from augur_bench.reference_logits import Continuation
from augur_bench.rung import NewSteps
from augur_gen import Generation, StopConditions
from augur_proof.compare import first_parting, kl_divergence


@dataclass(frozen=True)
class Exactness:
    """Over all positions of all prompts.

    Attributes:
        num_prompts: continued.
        num_positions: compared, each a whole row of logits.
        max_abs_diff: largest absolute difference of two logits.
        mean_kl_nats: of the rung's next-token distribution from the reference's, mean of positions.
        max_kl_nats: the largest.
        num_same_top: positions where the rung would choose the reference's token.
    """

    num_prompts: int
    num_positions: int
    max_abs_diff: float
    mean_kl_nats: float
    max_kl_nats: float
    num_same_top: int


@dataclass(frozen=True)
class Parting:
    """Where the rung's own greedy text leaves the reference's.

    Attributes:
        num_tokens: compared.
        index: of the first token that differs, from 0; None where none does.
        reference_token_id: there.
        token_id: the rung's, there.
        margin: by how much the reference's logits prefer its own token there.
    """

    num_tokens: int
    index: int | None = None
    reference_token_id: int | None = None
    token_id: int | None = None
    margin: float | None = None


def measure_exactness(
    new_steps: NewSteps, continuations: list[Continuation], rows: Tensor, device: torch.device
) -> Exactness:
    """Feed the reference's tokens and compare every row.

    Args:
        new_steps: of the rung.
        continuations: of the reference.
        rows: the reference's logits, `[positions, vocab_size]` float32.
        device: of the model.

    Raises:
        RungFailedError: a logit is infinite or not a number, or a row is not one logit for each
            token of the vocabulary.
    """
    largest, same_top = 0.0, 0
    divergences: list[float] = []
    for continuation in continuations:
        row_index = continuation.first_row
        for ours in _forced_rows(new_steps, continuation, device):
            expected = rows[row_index]
            _check_row(ours, expected, row_index - continuation.first_row)
            largest = max(largest, float((ours[0].double() - expected.double()).abs().max()))
            divergences.append(float(kl_divergence(expected[None], ours)))
            same_top += int(ours[0].argmax() == expected.argmax())
            row_index += 1
    return Exactness(
        num_prompts=len(continuations),
        num_positions=len(divergences),
        max_abs_diff=largest,
        mean_kl_nats=math.fsum(divergences) / len(divergences),
        max_kl_nats=max(divergences),
        num_same_top=same_top,
    )


def find_parting(token_ids: list[int], continuation: Continuation, rows: Tensor) -> Parting:
    """Compare a rung's own tokens with the reference's.

    Args:
        token_ids: what the rung generated.
        continuation: what the reference generated, as long or longer.
        rows: the reference's logits.
    """
    expected = continuation.token_ids[: len(token_ids)]
    index = first_parting(expected, token_ids)
    if index is None:
        return Parting(len(token_ids))
    row = rows[continuation.first_row + index]
    theirs, ours = expected[index], token_ids[index]
    return Parting(len(token_ids), index, theirs, ours, float(row[theirs] - row[ours]))


def _check_row(ours: Tensor, expected: Tensor, num_new_tokens: int) -> None:
    # Before anything is compared: a tensor of another shape might be broadcast.
    if ours.shape != (1, *expected.shape):
        raise RungFailedError(
            f"after {num_new_tokens} new tokens, the logits are {list(ours.shape)}, expected "
            f"{[1, *expected.shape]}"
        )
    num_wrong = int((~ours.isfinite()).sum())
    if num_wrong:
        raise RungFailedError(
            f"after {num_new_tokens} new tokens, {num_wrong} of {ours.numel()} logits are not "
            "finite"
        )


def _forced_rows(
    new_steps: NewSteps, continuation: Continuation, device: torch.device
) -> Iterator[Tensor]:
    """Each position's logits, `[1, vocab_size]` as promised, in float32 on the CPU."""
    last_row = torch.empty(0)
    forced = iter(continuation.token_ids)

    def keep_and_force(logits: Tensor) -> Tensor:
        nonlocal last_row
        last_row = logits.float().cpu()
        return torch.tensor([next(forced)])

    stop = StopConditions(len(continuation.token_ids))
    steps = new_steps()
    generation = Generation(
        steps, continuation.prompt_token_ids, stop, device=device, sampler=keep_and_force
    )
    for _ in generation:
        yield last_row
