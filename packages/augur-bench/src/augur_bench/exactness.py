"""What a rung costs: how far its logits are from the reference's on the same tokens.

The rung is fed the reference's tokens whatever it would have chosen, step by step as it decodes,
so every position compares like with like.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from augur_bench.errors import RungFailedError
from augur_gen import Generation, Steps, StopConditions, greedy
from augur_proof import WHOLE_MODEL
from augur_proof.compare import first_parting, kl_divergence


@dataclass(frozen=True)
class Continuation:
    """What the reference chose after a prompt.

    Attributes:
        prompt_token_ids: the prompt.
        token_ids: the new tokens.
        rows: the logits that each was chosen from, `[len(token_ids), vocab_size]` float32.
    """

    prompt_token_ids: list[int]
    token_ids: list[int]
    rows: Tensor


def continue_greedily(
    steps: Steps, prompt_token_ids: list[int], max_new_tokens: int, device: torch.device
) -> Continuation:
    """Generate, and keep all logits."""
    rows: list[Tensor] = []

    def keep_and_choose(logits: Tensor) -> Tensor:
        rows.append(logits[0].float().cpu())
        return greedy(logits)

    stop = StopConditions(max_new_tokens)
    generation = Generation(steps, prompt_token_ids, stop, device=device, sampler=keep_and_choose)
    token_ids = generation.run().token_ids
    return Continuation(prompt_token_ids, token_ids, torch.stack(rows))


def save_reference(continuations: list[Continuation], path: Path) -> None:
    """Write what `load_reference` reads, so that each rung is compared in its own process."""
    torch.save([vars(one) for one in continuations], path)


def load_reference(path: Path) -> list[Continuation]:
    """The rows stay in the file until they are looked at."""
    return [Continuation(**one) for one in torch.load(path, mmap=True, weights_only=True)]


def measure_exactness(
    new_steps: Callable[[], Steps],
    own_token_ids: list[int],
    reference: list[Continuation],
    device: torch.device,
) -> dict[str, Any]:
    """Feed the reference's tokens to a rung and compare every row of logits.

    Args:
        new_steps: of the rung.
        own_token_ids: what the rung itself generated after the first prompt.
        reference: what it is held against.
        device: of the model.

    Returns:
        over all positions of all prompts: the largest absolute difference of two logits, the root
        mean square of all, the largest as a share of float32's tolerance, the Kullback-Leibler
        divergence of the rung's next-token distribution from the reference's, and at how many
        positions the rung would choose the reference's token; `own_text` is a parting.

    Raises:
        RungFailedError: a logit is infinite or not a number, or a row is not one logit for each
            token of the vocabulary.
    """
    differences: list[float] = []
    squares: list[float] = []
    shares: list[float] = []
    divergences: list[float] = []
    same_top = 0
    tolerance = WHOLE_MODEL[torch.float32]
    for continuation in reference:
        ours_by_row = _forced_rows(new_steps(), continuation, device)
        for ours, expected in zip(ours_by_row, continuation.rows, strict=True):
            difference = (ours[0].double() - expected.double()).abs()
            differences.append(float(difference.max()))
            squares.append(float(difference.square().mean()))
            shares.append(float((difference / tolerance.bound(expected)).max()))
            divergences.append(float(kl_divergence(expected[None], ours)))
            same_top += int(ours[0].argmax() == expected.argmax())
    return {
        "num_prompts": len(reference),
        "num_positions": len(differences),
        "max_abs_diff": max(differences),
        "rms_diff": math.sqrt(math.fsum(squares) / len(squares)),
        "share_of_tolerance": max(shares),
        "mean_kl_nats": math.fsum(divergences) / len(divergences),
        "max_kl_nats": max(divergences),
        "num_same_top": same_top,
        "own_text": find_parting(own_token_ids, reference[0]),
    }


def find_parting(token_ids: list[int], reference: Continuation) -> dict[str, Any]:
    """Where a rung's own greedy text leaves the reference's, which is as long or longer.

    Returns:
        the number of tokens compared, the index of the first that differs, from 0, both tokens
        there, and by how much the reference's logits prefer its own; None where none differs.
    """
    expected = reference.token_ids[: len(token_ids)]
    index = first_parting(expected, token_ids)
    theirs = ours = margin = None
    if index is not None:
        row, theirs, ours = reference.rows[index], expected[index], token_ids[index]
        margin = float(row[theirs] - row[ours])
    return {
        "num_tokens": len(token_ids),
        "index": index,
        "reference_token_id": theirs,
        "token_id": ours,
        "margin": margin,
    }


def _check_row(ours: Tensor, expected: Tensor, num_new_tokens: int) -> None:
    # Before anything is compared: a tensor of another shape might be broadcast.
    where, shape = f"after {num_new_tokens} new tokens", [1, *expected.shape]
    if list(ours.shape) != shape:
        raise RungFailedError(f"{where}, the logits are {list(ours.shape)}, expected {shape}")
    num_wrong = int((~ours.isfinite()).sum())
    if num_wrong:
        raise RungFailedError(f"{where}, {num_wrong} of {ours.numel()} logits are not finite")


def _forced_rows(
    steps: Steps, continuation: Continuation, device: torch.device
) -> Iterator[Tensor]:
    """Each position's logits, `[1, vocab_size]` and finite, in float32 on the CPU."""
    last_row = torch.empty(0)
    forced = enumerate(zip(continuation.token_ids, continuation.rows, strict=True))

    def keep_and_force(logits: Tensor) -> Tensor:
        nonlocal last_row
        last_row = logits.float().cpu()
        number, (token_id, expected) = next(forced)
        _check_row(last_row, expected, number)
        return torch.tensor([token_id])

    stop = StopConditions(len(continuation.token_ids))
    prompt = continuation.prompt_token_ids
    for _ in Generation(steps, prompt, stop, device=device, sampler=keep_and_force):
        yield last_row
