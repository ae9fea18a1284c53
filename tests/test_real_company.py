"""The ten reference prompts on the real model, all together, each with its tokens alone."""

import gc
from pathlib import Path

import pytest

import augur
from augur_proof import read_prompts

pytestmark = [pytest.mark.real, pytest.mark.gate]

PROMPTS = read_prompts()
GREEDY: augur.Options = {"max_new_tokens": 32}
DRAWN: augur.Options = {"max_new_tokens": 32, "temperature": 0.7, "seed": 1}


@pytest.fixture(scope="module")
def llm(real_checkpoint: Path) -> augur.LLM:
    gc.collect()
    return augur.load(real_checkpoint, device="cpu", dtype="float32")


@pytest.mark.parametrize("options", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_all_together_twice_and_in_two_orders_give_the_lone_runs_tokens(
    llm: augur.LLM, options: augur.Options
) -> None:
    def alone(place: int) -> list[int]:
        seed: augur.Options = {"seed": 1 + place} if "seed" in options else {}
        return llm.chat(PROMPTS[place], **options | seed).token_ids

    expected = [alone(place) for place in range(10)]
    for _ in range(2):
        found = llm.batch(PROMPTS, **options)
        assert [answer.token_ids for answer in found] == expected
    # Another order is another company in every step. Seeds go by the place, so they do not apply.
    if options == GREEDY:
        found = llm.batch(PROMPTS[::-1], **options)
        assert [answer.token_ids for answer in found] == expected[::-1]
