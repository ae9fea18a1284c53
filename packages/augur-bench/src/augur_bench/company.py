"""Rungs for many sequences: one after another, side by side in padded rows, packed over pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from augur_gen import (
    BLOCK_SIZE,
    BlockPool,
    CachedSteps,
    PagedKVCache,
    Request,
    Scheduler,
    Steps,
    StopConditions,
    generate,
    generate_batch,
)
from augur_gen import Sequence as Generated
from augur_model import QwenForCausalLM
from augur_proof.transformers_api import import_transformers


@dataclass(frozen=True)
class Asked:
    """A prompt, and how many new tokens are wanted; no EOS ends them."""

    prompt_token_ids: list[int]
    num_new_tokens: int

    @property
    def num_tokens(self) -> int:
        """Of both."""
        return len(self.prompt_token_ids) + self.num_new_tokens


# As the scheduler has it, where there are no more sequences.
_STEP_TOKENS = 256

Tell = Callable[[Mapping[int, int]], object]
"""Given new tokens as they are chosen, by the place of their sequence."""

AnswerMany = Callable[[Any, Sequence[Asked], Tell], int]
"""A network, what is asked, whom to tell -> the most tokens that the cache had room for."""


def one_by_one(model: QwenForCausalLM, asked: Sequence[Asked], tell: Tell) -> int:
    """Each alone, after the one before it."""
    for place, one in enumerate(asked):
        stop = StopConditions(one.num_new_tokens)
        for token_id in generate(model, one.prompt_token_ids, stop):
            tell({place: token_id})
    return max(one.num_tokens for one in asked)


def padded(model: QwenForCausalLM, asked: Sequence[Asked], tell: Tell) -> int:
    """A row for each, as long as the longest; those that have ended are dropped."""
    for new in generate_batch(model, _sequences(asked)):
        tell(new)
    return len(asked) * max(one.num_tokens for one in asked)


def continuous(model: QwenForCausalLM, asked: Sequence[Asked], tell: Tell) -> int:
    """Through a scheduler, all at a time if need be, over a pool with room for all."""
    pool = _pool_for(model, *(one.num_tokens for one in asked))
    scheduler = Scheduler(
        model, pool, max_running=len(asked), max_step_tokens=max(_STEP_TOKENS, len(asked))
    )
    places: dict[Request, int] = {
        scheduler.add(sequence): place for place, sequence in enumerate(_sequences(asked))
    }
    most = 0
    while scheduler.has_work:
        new = scheduler.step().tokens
        most = max(most, pool.num_in_use)
        tell({places[request]: token_id for request, token_id in new})
    return most * pool.block_size


def paged(model: QwenForCausalLM, capacity: int) -> Steps:
    """One sequence over pages."""
    return CachedSteps(model, PagedKVCache(_pool_for(model, capacity)))


def transformers_generate(model: Any, asked: Sequence[Asked], tell: Tell) -> int:
    """Its own `generate` of a batch padded on the left; rows that have ended go on as padding."""
    transformers = import_transformers()
    longest = max(len(one.prompt_token_ids) for one in asked)
    most = max(one.num_new_tokens for one in asked)
    wanted = torch.tensor([one.num_new_tokens for one in asked], device=model.device)
    missing = [longest - len(one.prompt_token_ids) for one in asked]
    rows = [[0] * gap + one.prompt_token_ids for gap, one in zip(missing, asked, strict=True)]
    mask = [[0] * gap + [1] * (longest - gap) for gap in missing]

    class Streamer:
        num_told = -1  # it is given the prompts first

        def put(self, token_ids: Tensor) -> None:
            if self.num_told >= 0:
                new = enumerate(zip(asked, token_ids.tolist(), strict=True))
                tell({i: it for i, (one, it) in new if self.num_told < one.num_new_tokens})
            self.num_told += 1

        def end(self) -> None: ...

    def has_ended(token_ids: Tensor, _scores: object, **_: object) -> Tensor:
        return token_ids.shape[1] - longest >= wanted

    # Without the checkpoint's own EOS and sampling.
    model.generation_config = transformers.GenerationConfig(pad_token_id=0, do_sample=False)
    model.generate(
        torch.tensor(rows, device=model.device),
        attention_mask=torch.tensor(mask, device=model.device),
        max_new_tokens=most,
        stopping_criteria=transformers.StoppingCriteriaList([has_ended]),
        streamer=Streamer(),
    )
    return len(asked) * (longest + most)


def _sequences(asked: Sequence[Asked]) -> list[Generated]:
    return [Generated(one.prompt_token_ids, StopConditions(one.num_new_tokens)) for one in asked]


def _pool_for(model: QwenForCausalLM, *num_tokens: int) -> BlockPool:
    """With room for sequences of so many tokens, each in blocks of its own."""
    num_blocks = sum(-(-count // BLOCK_SIZE) for count in num_tokens)
    return BlockPool(model.config, num_blocks, dtype=model.dtype, device=model.device)
