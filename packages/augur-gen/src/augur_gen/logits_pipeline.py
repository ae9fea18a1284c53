"""The processors in the order in which transformers applies them."""

from collections.abc import Callable

from torch import Tensor

from augur_gen.logit_processors import (
    apply_frequency_penalty,
    apply_logit_bias,
    apply_min_p,
    apply_presence_penalty,
    apply_repetition_penalty,
    apply_temperature,
    apply_top_k,
    apply_top_p,
)
from augur_gen.sampling_params import SamplingParams


def process_logits(
    logits: Tensor, params: SamplingParams, token_ids: Tensor, num_prompt_tokens: int
) -> Tensor:
    """All of it, plainly: the logits whose softmax the next token is drawn from.

    Args:
        logits: `[batch, vocab_size]`, of any float dtype.
        params: what to apply. A temperature of 0 leaves only bias and penalties to apply.
        token_ids: `[batch, length]`, integer: prompt and generated tokens.
        num_prompt_tokens: how many of them are the prompt.

    Returns:
        `[batch, vocab_size]`, float32.
    """
    penalised = apply_penalties(logits.float(), params, token_ids, num_prompt_tokens)
    if params.temperature == 0:
        return penalised
    return apply_cuts(apply_temperature(penalised, params.temperature), params)


def apply_penalties(
    logits: Tensor, params: SamplingParams, token_ids: Tensor, num_prompt_tokens: int
) -> Tensor:
    """logit_bias, repetition, presence and frequency penalty; arguments as `process_logits`.

    transformers has no presence and frequency penalty; a processor of the caller's own comes to
    stand where they do.
    """
    if params.logit_bias:
        logits = apply_logit_bias(logits, params.logit_bias)
    if params.repetition_penalty != 1:
        logits = apply_repetition_penalty(logits, token_ids, params.repetition_penalty)
    generated_ids = token_ids[:, num_prompt_tokens:]
    if params.presence_penalty != 0:
        logits = apply_presence_penalty(logits, generated_ids, params.presence_penalty)
    if params.frequency_penalty != 0:
        logits = apply_frequency_penalty(logits, generated_ids, params.frequency_penalty)
    return logits


def apply_cuts(
    logits: Tensor,
    params: SamplingParams,
    apply_top_p: Callable[[Tensor, float], Tensor] = apply_top_p,
) -> Tensor:
    """top_k, top_p and min_p: which tokens may be drawn.

    Args:
        logits: `[batch, vocab_size]`, float32, divided by the temperature.
        params: which cuts.
        apply_top_p: how to do the second.
    """
    if params.top_k is not None:
        logits = apply_top_k(logits, params.top_k)
    if params.top_p < 1:
        logits = apply_top_p(logits, params.top_p)
    if params.min_p > 0:
        logits = apply_min_p(logits, params.min_p)
    return logits
