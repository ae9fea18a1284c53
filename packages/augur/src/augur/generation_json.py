"""How options and log-probabilities are written in JSON."""

import dataclasses
import math
from typing import Any

from augur.options import GenerationOptions
from augur_gen import SamplingParams, TokenLogprobs
from augur_tok import Tokenizer


def options_json(options: GenerationOptions) -> dict[str, Any]:
    """Every option under its name; sampling as `sampling_json` has it."""
    return {
        "max_new_tokens": options.max_new_tokens,
        "min_new_tokens": options.min_new_tokens,
        "max_time_s": options.max_time_s,
        "stop_strings": list(options.stop_strings),
        "stop_token_ids": sorted(options.stop_token_ids),
        "sampling": sampling_json(options.sampling),
    }


def sampling_json(sampling: SamplingParams | None) -> dict[str, Any]:
    """All parameters under their names; the raw argmax, which is None, as temperature 0."""
    params = dataclasses.asdict(sampling or SamplingParams(temperature=0))
    params["logit_bias"] = {
        str(token_id): _number(bias) for token_id, bias in sorted(params["logit_bias"].items())
    }
    return params


def logprobs_json(
    tokenizer: Tokenizer, logprobs: list[TokenLogprobs] | None
) -> list[dict[str, Any]] | None:
    """For each token its id, text and log-probability, and under `top` those of the likeliest.

    A token that holds a part of a character has U+FFFD for a text.
    """

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        text = tokenizer.decode([token_id])
        return {"token_id": token_id, "text": text, "logprob": _number(logprob)}

    if logprobs is None:
        return None
    return [
        entry(token.token_id, token.logprob) | {"top": [entry(*likely) for likely in token.top]}
        for token in logprobs
    ]


def _number(value: float) -> float | str:
    # JSON has no infinity.
    return value if math.isfinite(value) else str(value)
