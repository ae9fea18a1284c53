"""Whole prompts: what the referee makes of them, and whether a candidate makes the same."""

from collections.abc import Callable, Collection

import torch

from augur_model import QwenConfig
from augur_proof.answer import Answer
from augur_proof.candidate import Candidate
from augur_proof.compare import Comparison, compare
from augur_proof.demand import Demand
from augur_proof.errors import ProofError
from augur_proof.ground_truth import GroundTruth
from augur_proof.made_with import MadeWith
from augur_proof.referee import Referee

Progress = Callable[[str, int, int], object]
"""Told of a stage, and how much of how much of it is done."""


def record_truth(
    referee: Referee, prompts: list[str], made_with: MadeWith, progress: Progress | None = None
) -> GroundTruth:
    """The referee's answers, the logits of every step included.

    `made_with` is its setting, with how many tokens to generate for each prompt.

    Raises:
        ProofError: a prompt cannot be encoded, or is too long.
    """
    num_new = made_with.max_new_tokens
    # All before the first is answered: that takes minutes.
    for number, prompt in enumerate(prompts, start=1):
        check_fits(referee.config, f"prompt {number}", len(referee.encode(prompt)), num_new)
    answers: list[Answer] = []
    for prompt in prompts:
        _tell(progress, "transformers", len(answers), len(prompts))
        answers.append(referee.answer(prompt, num_new))
    _tell(progress, "transformers", len(prompts), len(prompts))
    return GroundTruth(made_with, answers)


def check(
    candidate: Candidate,
    truth: GroundTruth,
    demand: Demand,
    *,
    encode: Callable[[str], list[int]],
    eos_token_ids: Collection[int],
    progress: Progress | None = None,
) -> list[Comparison]:
    """The candidate's answers to the truth's prompts, each compared and let go.

    It is fed the truth's ids even where its own encoding differs, so that a wrong encoding is told
    apart from wrong logits.

    Args:
        candidate: what is on trial.
        truth: the referee's answers.
        demand: the rule.
        encode: gives a prompt's ids as users of the candidate get them.
        eos_token_ids: any of them ends an answer.
        progress: told how many prompts are compared.

    Raises:
        ProofError: the truth is not for this model.
    """
    config, num_new = candidate.model.config, truth.made_with.max_new_tokens
    found: list[Comparison] = []
    for expected in truth.answers:
        _tell(progress, "augur", len(found), len(truth.answers))
        input_ids = expected.input_ids
        if max(input_ids) >= config.vocab_size:
            raise ProofError(
                f"the truth has token {max(input_ids)}, and the vocabulary ends at "
                f"{config.vocab_size - 1}: it is another model's"
            )
        check_fits(config, f"prompt {len(found) + 1}", len(input_ids), num_new)
        run = candidate.greedy(input_ids, num_new, eos_token_ids)
        ours = Answer(expected.prompt, encode(expected.prompt), *run)
        exact = None
        if demand.budget:
            fed = torch.tensor([[*input_ids, *expected.generated_ids[:-1]]])
            exact = candidate.logits_in_float32(
                fed.to(candidate.model.device), logits_to_keep=len(expected.generated_ids)
            )[0].cpu()
        found.append(compare(expected, ours, demand, exact))
    _tell(progress, "augur", len(found), len(truth.answers))
    return found


def check_fits(
    config: QwenConfig, what: str, num_prompt_tokens: int, num_more: int, more: str = "new tokens"
) -> None:
    """Raise `ProofError` where the tokens are more than the model's positions."""
    wanted, limit = num_prompt_tokens + num_more, config.num_positions
    if wanted > limit:
        raise ProofError(
            f"{what} has {num_prompt_tokens} tokens and {num_more} {more} follow: {wanted}, but "
            f"the model has {limit} positions. Ask for fewer"
        )


def _tell(progress: Progress | None, stage: str, done: int, total: int) -> None:
    if progress is not None:
        progress(stage, done, total)
