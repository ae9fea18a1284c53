"""augur's side of a comparison: the engine that users run, its logits kept."""

import torch
from torch import Tensor

from augur.llm import LLM
from augur_gen import StopConditions, generate, greedy
from augur_proof.answer import Answer


def candidate_answer(
    engine: LLM, prompt: str, reference_ids: list[int], max_new_tokens: int
) -> Answer:
    """Encode a prompt, and continue the reference's ids.

    The network is fed the reference's ids even where its own encoding differs, so that a wrong
    encoding is told apart from wrong logits.

    Raises:
        GenerationError: an id is outside the vocabulary, or there are too many.
    """
    rows: list[Tensor] = []

    def keep_and_choose(logits: Tensor) -> Tensor:
        rows.append(logits[0].cpu())
        return greedy(logits)

    stop = StopConditions(max_new_tokens, engine.eos_token_ids)
    result = generate(engine.model, reference_ids, stop, sampler=keep_and_choose).run()
    return Answer(prompt, engine.encode(prompt), result.token_ids, torch.stack(rows))
