"""Greedy generation chooses what transformers' does, step by step, from equal logits."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from augur_proof import (
    Candidate,
    GreedyRun,
    Referee,
    check_same_bits,
    random_token_ids,
    tiny_config,
    tiny_pair,
)

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("kind", ["untied", "tied"])
def test_tokens_and_every_steps_logits_equal_transformers(
    kind: str, generate: Callable[..., GreedyRun]
) -> None:
    candidate, referee = tiny_pair(kind, torch.float32)
    for prompt in random_token_ids(4, 11).tolist():
        found, expected = candidate.greedy(prompt, 24), generate(referee, prompt, 24)
        assert found.token_ids == expected.token_ids
        check_same_bits(found.logits, expected.logits)


def test_any_of_the_eos_tokens_ends_the_text_where_transformers_ends_it(
    generate: Callable[..., GreedyRun],
) -> None:
    candidate, referee = tiny_pair("untied", torch.float32)
    prompt = random_token_ids(1, 11)[0].tolist()
    unstopped = generate(referee, prompt, 24).token_ids
    # The token that comes first latest, so that there is text before it.
    eos_token_id = max(unstopped, key=unstopped.index)
    unused = next(token_id for token_id in range(128) if token_id not in unstopped)
    eos_token_ids = [unused, eos_token_id]
    found = candidate.greedy(prompt, 24, eos_token_ids).token_ids
    expected = generate(referee, prompt, 24, eos_token_id=eos_token_ids).token_ids
    assert found == expected == unstopped[: len(found)]
    assert referee.greedy(prompt, 24, eos_token_ids).token_ids == expected
    assert found[-1] == eos_token_id
    assert 1 < len(found) < 24


def test_greedy_is_the_raw_argmax_whatever_penalty_the_checkpoint_names(
    tmp_path: Path, generate: Callable[..., GreedyRun]
) -> None:
    model = Referee.random(tiny_config()).model
    model.generation_config = transformers.GenerationConfig(repetition_penalty=1.5)
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "generation_config.json").read_text(encoding="utf-8"))
    assert saved["repetition_penalty"] == 1.5

    prompt = random_token_ids(1, 11)[0].tolist()
    candidate, referee = (side.load(tmp_path, dtype=torch.float32) for side in (Candidate, Referee))
    found = candidate.greedy(prompt, 24).token_ids
    assert found == referee.greedy(prompt, 24).token_ids == generate(referee, prompt, 24).token_ids
    # The penalty would have changed the text.
    assert found != generate(referee, prompt, 24, repetition_penalty=None).token_ids

    so_far = list(prompt)
    for token_id in found:
        assert token_id == int(candidate.logits(torch.tensor([so_far]))[0, -1].argmax())
        so_far.append(token_id)
