"""Whole prompts: a candidate that computes what the referee does holds, and no other does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from augur_model import Ops
from augur_proof import (
    DECODE_TWINS,
    PREFILL_TWINS,
    Candidate,
    GroundTruth,
    MadeWith,
    ProofError,
    Referee,
    check,
    check_fits,
    record_truth,
    whole_model_demand,
)
from augur_tok import Tokenizer

pytest.importorskip("transformers")

PROMPTS = ["Why is the sky blue?", "¿Por qué?", "你好 🙂"]
SETTING = MadeWith(
    "transformers", "tiny", dtype="float32", device="cpu", attention="eager", max_new_tokens=6
)
TO_THE_BIT = whole_model_demand(SETTING, SETTING)
ANOTHER_WAY = whole_model_demand(SETTING, replace(SETTING, attention="on trial"))


@pytest.fixture(scope="module")
def truth(checkpoint: Path) -> GroundTruth:
    return record_truth(Referee.load(checkpoint, dtype=torch.float32), PROMPTS, SETTING)


@pytest.fixture(scope="module")
def candidate(checkpoint: Path) -> Candidate:
    return Candidate.load(checkpoint, dtype=torch.float32)


@pytest.fixture(scope="module")
def encode(checkpoint: Path) -> Callable[[str], list[int]]:
    tokenizer = Tokenizer.from_folder(checkpoint)
    return lambda prompt: tokenizer.encode_chat([{"role": "user", "content": prompt}])


def test_every_step_of_every_prompt_is_equal_to_the_bit(
    candidate: Candidate, truth: GroundTruth, encode: Callable[[str], list[int]]
) -> None:
    told: list[tuple[str, int, int]] = []
    found = check(
        candidate,
        truth,
        TO_THE_BIT,
        encode=encode,
        eos_token_ids=(),
        progress=lambda *step: told.append(step),
    )
    assert [one.num_steps for one in found] == [6, 6, 6]
    assert all(one.held and one.logits.num_differing == 0 for one in found)
    assert told == [("augur", done, 3) for done in range(4)]


@pytest.mark.parametrize(
    "ops", (DECODE_TWINS | PREFILL_TWINS).values(), ids=[*DECODE_TWINS, *PREFILL_TWINS]
)
def test_a_broken_twin_fails_within_the_tolerance(
    candidate: Candidate, truth: GroundTruth, encode: Callable[[str], list[int]], ops: Ops
) -> None:
    found = check(candidate.with_ops(ops), truth, ANOTHER_WAY, encode=encode, eos_token_ids=())
    assert all(one.id_parting is None and not one.held for one in found)


def test_another_encoding_fails_though_the_logits_are_equal(
    candidate: Candidate, truth: GroundTruth
) -> None:
    found = check(
        candidate, truth, TO_THE_BIT, encode=lambda prompt: [len(prompt)], eos_token_ids=()
    )
    assert [(one.id_parting, one.logits.num_differing, one.held) for one in found] == [
        (0, 0, False)
    ] * 3


def test_an_eos_of_the_candidates_own_ends_its_answer(
    candidate: Candidate, truth: GroundTruth, encode: Callable[[str], list[int]]
) -> None:
    eos = truth.answers[0].generated_ids[1]
    found = check(candidate, truth, TO_THE_BIT, encode=encode, eos_token_ids=[eos])[0]
    parting = truth.answers[0].generated_ids.index(eos) + 1
    assert (found.token_parting, found.held) == (parting, False)


def test_a_truth_of_another_model_is_refused(candidate: Candidate, truth: GroundTruth) -> None:
    foreign = replace(truth.answers[0], input_ids=[5000])
    with pytest.raises(ProofError, match="token 5000"):
        check(
            candidate,
            GroundTruth(SETTING, [foreign]),
            TO_THE_BIT,
            encode=lambda _: [],
            eos_token_ids=(),
        )


def test_all_of_the_models_positions_can_be_used(candidate: Candidate) -> None:
    config = candidate.model.config
    limit = config.max_position_embeddings
    check_fits(config, "the prompt", 12, limit - 12, "new tokens")
    with pytest.raises(ProofError, match=f"the model has {limit} positions"):
        check_fits(config, "the prompt", 13, limit - 12, "new tokens")


def test_a_prompt_that_does_not_fit_is_refused_before_any_is_answered(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    referee = Referee.load(checkpoint, dtype=torch.float32)
    monkeypatch.setattr(Referee, "answer", lambda *_: pytest.fail("transformers ran"))
    with pytest.raises(ProofError, match="prompt 2 has"):
        record_truth(referee, ["Why?", "a" * 600], SETTING)
