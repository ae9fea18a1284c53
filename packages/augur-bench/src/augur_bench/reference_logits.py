"""The reference's logits in a file, so that each rung can be held against them in its process."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from augur_bench.rung import NewSteps
from augur_gen import Generation, StopConditions, greedy


@dataclass(frozen=True)
class Continuation:
    """A prompt and the tokens that the reference chose after it.

    Attributes:
        prompt_token_ids: the prompt.
        token_ids: the reference's tokens.
        first_row: of the file, for the logits that the first token was chosen from.
    """

    prompt_token_ids: list[int]
    token_ids: list[int]
    first_row: int


def open_rows(path: Path, num_rows: int, vocab_size: int) -> Tensor:
    """`[num_rows, vocab_size]` float32 that lives in a file; made where it is not there."""
    flat = torch.from_file(str(path), shared=True, size=num_rows * vocab_size, dtype=torch.float32)
    return flat.view(num_rows, vocab_size)


def record(
    new_steps: NewSteps,
    prompts: list[list[int]],
    num_tokens: list[int],
    rows: Tensor,
    device: torch.device,
) -> list[list[int]]:
    """Continue each prompt greedily, write the logits, and give the tokens.

    Args:
        new_steps: of the reference.
        prompts: token ids.
        num_tokens: to generate after each prompt.
        rows: `[sum of num_tokens, vocab_size]`, overwritten.
        device: of the model.
    """
    chosen = []
    next_row = 0

    def keep_and_choose(logits: Tensor) -> Tensor:
        nonlocal next_row
        rows[next_row].copy_(logits[0])
        next_row += 1
        return greedy(logits)

    for prompt, count in zip(prompts, num_tokens, strict=True):
        generation = Generation(
            new_steps(), prompt, StopConditions(count), device=device, sampler=keep_and_choose
        )
        chosen.append(generation.run().token_ids)
    return chosen
