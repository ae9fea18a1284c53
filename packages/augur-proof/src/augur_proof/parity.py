"""Whole prompts: what the referee makes of them, and whether a candidate makes the same."""

from collections.abc import Callable, Collection

from augur_model import QwenConfig
from augur_proof.answer import Answer
from augur_proof.candidate import Candidate
from augur_proof.compare import Comparison, compare
from augur_proof.demand import Demand
from augur_proof.errors import ProofError
from augur_proof.ground_truth import GroundTruth
from augur_proof.made_with import MadeWith
from augur_proof.referee import Referee

Progress = Callable[[str, int, int], None]
"""Told of a stage, and how much of how much of it is done."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Tell nobody."""


def record_truth(
    referee: Referee,
    prompts: list[str],
    made_with: MadeWith,
    progress: Progress = no_progress,
) -> GroundTruth:
    """The referee's answers, the logits of every step included.

    Args:
        referee: the source of truth.
        prompts: what users say.
        made_with: its setting, with how many tokens to generate for each prompt.
        progress: told how many prompts are answered.

    Raises:
        ProofError: a prompt cannot be encoded, or is too long.
    """
    # All before the first is answered: that takes minutes.
    for number, prompt in enumerate(prompts, start=1):
        num_tokens = len(referee.encode(prompt))
        check_fits(
            referee.config, f"prompt {number}", num_tokens, made_with.max_new_tokens, "new tokens"
        )
    answers = []
    for done, prompt in enumerate(prompts):
        progress("transformers", done, len(prompts))
        answers.append(referee.answer(prompt, made_with.max_new_tokens))
    progress("transformers", len(prompts), len(prompts))
    return GroundTruth(made_with, answers)


def check(
    candidate: Candidate,
    truth: GroundTruth,
    demand: Demand,
    *,
    encode: Callable[[str], list[int]],
    eos_token_ids: Collection[int],
    progress: Progress = no_progress,
) -> list[Comparison]:
    """The candidate's answers to the truth's prompts, each compared and let go.

    It is fed the truth's ids even where its own encoding differs, so that a wrong encoding is told
    apart from wrong logits.

    Args:
        candidate: what is on trial.
        truth: the referee's answers.
        demand: the rule.
        encode: a prompt's ids, as users of the candidate get them.
        eos_token_ids: any of them ends an answer.
        progress: told how many prompts are compared.

    Raises:
        ProofError: the truth is not for this model.
    """
    found = []
    max_new_tokens = truth.made_with.max_new_tokens
    for done, expected in enumerate(truth.answers):
        progress("augur", done, len(truth.answers))
        input_ids, config = expected.input_ids, candidate.model.config
        if max(input_ids) >= config.vocab_size:
            raise ProofError(
                f"the truth has token {max(input_ids)}, and the vocabulary ends at "
                f"{config.vocab_size - 1}: it is another model's"
            )
        check_fits(config, f"prompt {done + 1}", len(input_ids), max_new_tokens, "new tokens")
        run = candidate.greedy(input_ids, max_new_tokens, eos_token_ids)
        ours = Answer(expected.prompt, encode(expected.prompt), *run)
        found.append(compare(expected, ours, demand))
    progress("augur", len(truth.answers), len(truth.answers))
    return found


def check_fits(
    config: QwenConfig, what: str, num_prompt_tokens: int, num_more: int, more: str
) -> None:
    """Raise `ProofError` where the tokens are more than the model's positions."""
    wanted, limit = num_prompt_tokens + num_more, config.num_positions
    if wanted > limit:
        raise ProofError(
            f"{what} has {num_prompt_tokens} tokens and {num_more} {more} follow: {wanted}, but "
            f"the model has {limit} positions. Ask for fewer"
        )
