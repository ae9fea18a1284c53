"""Greedy generation chooses what transformers' does, step by step, from equal logits."""

import json
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig

from augur_gen import StopConditions, generate
from candidate import load_candidate
from comparison import check_same_bits
from greedy_runs import candidate_greedy, referee_greedy
from referee import build_referee, load_referee, referee_config
from tiny_pairs import random_token_ids, tiny_pair


@pytest.mark.parametrize("name", ["untied", "tied"])
def test_tokens_and_every_steps_logits_equal_transformers(name: str) -> None:
    pair = tiny_pair(name, torch.float32)
    for prompt in random_token_ids(4, 11).tolist():
        found = candidate_greedy(pair.candidate, prompt, 24)
        expected = referee_greedy(pair.referee, prompt, 24)
        assert found.token_ids == expected.token_ids
        check_same_bits(found.logits, expected.logits)


def test_any_of_the_eos_tokens_ends_the_text_where_transformers_ends_it() -> None:
    pair = tiny_pair("untied", torch.float32)
    prompt = random_token_ids(1, 11)[0].tolist()
    unstopped = referee_greedy(pair.referee, prompt, 24).token_ids
    # The token that comes first latest, so that there is text before it.
    eos_token_id = max(unstopped, key=unstopped.index)
    unused = next(token_id for token_id in range(128) if token_id not in unstopped)
    eos_token_ids = [unused, eos_token_id]
    found = candidate_greedy(pair.candidate, prompt, 24, eos_token_ids)
    expected = referee_greedy(pair.referee, prompt, 24, eos_token_ids)
    assert found.token_ids == expected.token_ids == unstopped[: len(found.token_ids)]
    assert found.token_ids[-1] == eos_token_id
    assert 1 < len(found.token_ids) < 24


def test_greedy_is_the_raw_argmax_whatever_penalty_the_checkpoint_names(tmp_path: Path) -> None:
    referee = build_referee(referee_config())
    referee.generation_config = GenerationConfig(repetition_penalty=1.5)
    referee.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "generation_config.json").read_text(encoding="utf-8"))
    assert saved["repetition_penalty"] == 1.5

    prompt = random_token_ids(1, 11)[0].tolist()
    candidate, referee = (load(tmp_path, torch.float32) for load in (load_candidate, load_referee))
    found = generate(candidate, prompt, StopConditions(max_new_tokens=24)).run().token_ids
    assert found == referee_greedy(referee, prompt, 24, repetition_penalty=1.0).token_ids
    # The penalty would have changed the text.
    assert found != referee_greedy(referee, prompt, 24, repetition_penalty=None).token_ids

    so_far = list(prompt)
    for token_id in found:
        with torch.inference_mode():
            assert token_id == int(candidate(torch.tensor([so_far]))[0, -1].argmax())
        so_far.append(token_id)
