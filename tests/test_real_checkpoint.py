"""The default model's real weights: every parameter and every logit equals transformers'."""

import gc
from pathlib import Path

import pytest
import torch
from torch import Tensor

from augur_tok import Tokenizer
from candidate import candidate_logits, load_candidate
from comparison import DTYPES, WHOLE_MODEL, check_close, check_same_bits
from referee import load_referee, referee_logits
from tiny_pairs import Pair

pytestmark = pytest.mark.real

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
ANSWER = "Hello! How can I help you today, my friend?"
NUM_DECODE_STEPS = 8


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def pair(request: pytest.FixtureRequest, real_checkpoint: Path) -> Pair:
    gc.collect()  # The pair before takes gigabytes, and holds on to itself.
    return Pair(
        load_candidate(real_checkpoint, request.param),
        load_referee(real_checkpoint, request.param),
    )


@pytest.fixture(scope="module")
def prompt_ids(real_checkpoint: Path) -> Tensor:
    return torch.tensor([Tokenizer.from_folder(real_checkpoint).encode_chat(MESSAGES)])


@pytest.fixture(scope="module")
def answer_ids(real_checkpoint: Path) -> Tensor:
    token_ids = Tokenizer.from_folder(real_checkpoint).encode(ANSWER)
    return torch.tensor([token_ids[:NUM_DECODE_STEPS]])


@pytest.fixture(scope="module")
def cached_logits(pair: Pair, prompt_ids: Tensor, answer_ids: Tensor) -> Tensor:
    """augur's, of the prompt at once and the answer step by step."""
    sizes = (prompt_ids.shape[1], *(1,) * answer_ids.shape[1])
    return candidate_logits(pair.candidate, torch.cat((prompt_ids, answer_ids), dim=1), sizes)


def test_every_parameter_equals_transformers(pair: Pair) -> None:
    found = dict(pair.candidate.named_parameters(remove_duplicate=False))
    expected = dict(pair.referee.named_parameters(remove_duplicate=False))
    assert found.keys() == expected.keys()
    for name, parameter in found.items():
        assert torch.equal(parameter, expected[name]), name
    check_same_bits(
        pair.candidate.model.rotary_emb.inverse_frequencies,
        pair.referee.model.rotary_emb.inv_freq,
    )


def test_prefill_and_eight_cached_decode_steps_equal_transformers(
    pair: Pair, cached_logits: Tensor, prompt_ids: Tensor, answer_ids: Tensor
) -> None:
    assert answer_ids.shape[1] == NUM_DECODE_STEPS
    sizes = (prompt_ids.shape[1], *(1,) * NUM_DECODE_STEPS)
    token_ids = torch.cat((prompt_ids, answer_ids), dim=1)
    check_same_bits(cached_logits, referee_logits(pair.referee, token_ids, sizes))


def test_cached_logits_stay_within_tolerance_of_uncached(
    pair: Pair, cached_logits: Tensor, prompt_ids: Tensor, answer_ids: Tensor
) -> None:
    uncached = candidate_logits(pair.candidate, torch.cat((prompt_ids, answer_ids), dim=1))
    check_close(cached_logits, uncached, WHOLE_MODEL[cached_logits.dtype])
