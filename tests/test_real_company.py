"""The ten reference prompts on the real model, drawn from all together, as each is alone.

What they come to greedily is beside what they come to alone: see test_real_prompts.
"""

import gc
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import augur
from augur_proof import read_prompts
from augur_proof.compare import first_parting

pytestmark = [pytest.mark.real, pytest.mark.gate]

PROMPTS = read_prompts()
TEMPERATURE = 0.7
# What a logit in company may differ by from the lone run's, in float32.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def llm(real_checkpoint: Path) -> augur.LLM:
    gc.collect()
    return augur.load(real_checkpoint, device="cpu", dtype="float32")


def test_drawn_by_a_seed_all_together_they_part_only_where_the_draw_is_a_near_tie(
    llm: augur.LLM,
) -> None:
    drawn: augur.Options = {"max_new_tokens": 20, "temperature": TEMPERATURE}
    together = llm.batch(PROMPTS, **drawn, seed=1)
    # Every other one alone: with all ten it takes minutes.
    for seed, (prompt, answer) in list(enumerate(zip(PROMPTS, together, strict=True), 1))[::2]:
        alone = llm.chat(prompt, **drawn, seed=seed).token_ids
        place = first_parting(alone, answer.token_ids)
        if place is not None:
            fed = llm.encode(prompt) + alone[:place]
            check_near_tie(llm, fed, seed, place, (alone[place], answer.token_ids[place]))


def check_near_tie(
    llm: augur.LLM, fed: Sequence[int], seed: int, place: int, chosen: tuple[int, int]
) -> None:
    """The random number is as close to either token's share as the tolerance can move a share.

    Where logits move by e at most, the odds of any set of tokens do by a factor of exp(2 e / T).
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(place + 1):
        uniform = float(torch.rand(1, dtype=torch.float64, generator=generator))
    with torch.inference_mode():
        logits = llm.model(torch.tensor([fed]), logits_to_keep=1)[0, -1]
    up_to_each = torch.softmax(logits.double() / TEMPERATURE, dim=-1).cumsum(dim=-1)
    reach = uniform * (1 - uniform) * 2 * TOLERANCE / TEMPERATURE
    for token_id in chosen:
        low = float(up_to_each[token_id - 1]) if token_id else 0.0
        assert low - reach <= uniform <= float(up_to_each[token_id]) + reach
