"""Whether a model can answer what it is asked, before anything is computed."""

from collections.abc import Sequence

from augur_gen.checked_values import checked_token_ids
from augur_gen.errors import ArgumentError
from augur_gen.sampling_params import SamplingParams
from augur_gen.stopping import StopConditions
from augur_model import QwenConfig


def check_fits_model(
    config: QwenConfig,
    prompt_token_ids: Sequence[int],
    stop: StopConditions,
    params: SamplingParams | None,
    num_cached: int = 0,
) -> None:
    """Raise `GenerationError` if the model lacks a token that is named, or the positions.

    Args:
        config: of the model.
        prompt_token_ids: what will be fed.
        stop: says how many tokens may follow.
        params: what the tokens are chosen by; None where a function does.
        num_cached: tokens that come before the prompt.
    """
    checked_token_ids(prompt_token_ids, "the prompt", config.vocab_size)
    if params is not None:
        params.check_vocabulary(config.vocab_size)
    num_tokens = num_cached + len(prompt_token_ids) + stop.max_new_tokens
    if num_tokens > config.num_positions:
        raise ArgumentError(
            "prompt and {max_new_tokens} come to %d tokens; the model has %d positions. Shorten "
            "the prompt or ask for fewer tokens",
            num_tokens,
            config.num_positions,
        )
