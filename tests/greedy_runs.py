"""Greedy generation by both sides, with the logits that each token was chosen from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM

from augur_gen import StopConditions, generate, greedy
from augur_model import QwenForCausalLM


class GreedyRun(NamedTuple):
    """New tokens, the prompt left out, and logits `[tokens, vocab_size]`, float32."""

    token_ids: list[int]
    logits: Tensor


def candidate_greedy(
    candidate: QwenForCausalLM,
    prompt: Sequence[int],
    max_new_tokens: int,
    eos_token_ids: Sequence[int] = (),
    **options: Any,
) -> GreedyRun:
    """augur's run; `options` are those of `generate`."""
    steps: list[Tensor] = []

    def recording_greedy(logits: Tensor) -> Tensor:
        steps.append(logits[0].float())
        return greedy(logits)

    stop = StopConditions.of(max_new_tokens, eos_token_ids)
    result = generate(candidate, prompt, stop, sampler=recording_greedy, **options).run()
    return GreedyRun(result.token_ids, torch.stack(steps))


def referee_greedy(
    referee: Qwen2ForCausalLM,
    prompt: Sequence[int],
    max_new_tokens: int,
    eos_token_ids: Sequence[int] = (),
    repetition_penalty: float | None = 1.0,
) -> GreedyRun:
    """transformers' run.

    Without `eos_token_ids`, the checkpoint's own stop it. A penalty of 1 switches the checkpoint's
    off; None leaves it on.
    """
    input_ids = torch.tensor([list(prompt)])
    options: dict[str, Any] = {"eos_token_id": list(eos_token_ids)} if eos_token_ids else {}
    if repetition_penalty is not None:
        options["repetition_penalty"] = repetition_penalty
    output = referee.generate(
        input_ids,
        attention_mask=torch.ones_like(input_ids),
        max_new_tokens=max_new_tokens,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        **options,
    )
    token_ids = output.sequences[0, input_ids.shape[1] :].tolist()
    return GreedyRun(token_ids, torch.cat(output.logits).float())
