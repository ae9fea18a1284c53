"""The default model's real weights: every parameter and every logit equals transformers'."""

import gc
from pathlib import Path

import pytest
import torch
from torch import Tensor

from augur_proof import (
    DECODE_TWINS,
    DTYPES,
    WHOLE_MODEL,
    Candidate,
    ComparisonError,
    Pair,
    Referee,
    check_close,
    check_same_bits,
    check_within_budget,
)
from augur_tok import Tokenizer

pytestmark = [pytest.mark.real, pytest.mark.gate]

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
ANSWER = "Hello! How can I help you today, my friend?"
NUM_DECODE_STEPS = 8


@pytest.fixture(scope="module", params=DTYPES.values(), ids=str)
def pair(request: pytest.FixtureRequest, real_checkpoint: Path) -> Pair:
    gc.collect()  # The pair before takes gigabytes, and holds on to itself.
    return Pair(
        Candidate.load(real_checkpoint, dtype=request.param),
        Referee.load(real_checkpoint, dtype=request.param),
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
    """The prompt at once, then the answer step by step."""
    sizes = (prompt_ids.shape[1], *(1,) * answer_ids.shape[1])
    return pair.candidate.logits(torch.cat((prompt_ids, answer_ids), dim=1), sizes)


def test_every_parameter_equals_transformers(pair: Pair) -> None:
    found = dict(pair.candidate.model.named_parameters(remove_duplicate=False))
    expected = dict(pair.referee.model.named_parameters(remove_duplicate=False))
    assert found.keys() == expected.keys()
    for name, parameter in found.items():
        assert torch.equal(parameter, expected[name]), name
    check_same_bits(
        pair.candidate.model.model.rotary_emb.inverse_frequencies,
        pair.referee.model.model.rotary_emb.inv_freq,
    )


def test_prefill_and_eight_cached_decode_steps_equal_transformers(
    pair: Pair, cached_logits: Tensor, prompt_ids: Tensor, answer_ids: Tensor
) -> None:
    assert answer_ids.shape[1] == NUM_DECODE_STEPS
    sizes = (prompt_ids.shape[1], *(1,) * NUM_DECODE_STEPS)
    token_ids = torch.cat((prompt_ids, answer_ids), dim=1)
    check_same_bits(cached_logits, pair.referee.logits(token_ids, sizes))


@pytest.fixture(scope="module")
def token_ids(prompt_ids: Tensor, answer_ids: Tensor) -> Tensor:
    return torch.cat((prompt_ids, answer_ids), dim=1)


@pytest.fixture(scope="module")
def oracle_logits(real_checkpoint: Path, token_ids: Tensor) -> Tensor:
    """Uncached, in float32."""
    return Candidate.load(real_checkpoint, dtype=torch.float32).logits(token_ids)


@pytest.fixture(scope="module")
def uncached_logits(pair: Pair, token_ids: Tensor) -> Tensor:
    return pair.candidate.logits(token_ids)


def test_cached_logits_are_as_close_to_the_uncached_as_the_dtype_allows(
    cached_logits: Tensor, uncached_logits: Tensor, oracle_logits: Tensor
) -> None:
    dtype = cached_logits.dtype
    # No fixed tolerance for float16: its own error on these weights, whose logits reach 31, is
    # 0.08 against float32, and transformers' cached and uncached logits are 0.03 apart, both more
    # than the 0.005 that fit logits around 1. A budget that float32 sets is the fairer measure.
    if dtype != torch.float16:
        check_close(cached_logits, uncached_logits, WHOLE_MODEL[dtype])
    if dtype != torch.float32:
        check_within_budget(cached_logits, uncached_logits, oracle_logits)


@pytest.mark.parametrize("name", ["own token not seen", "heads tiled"])
def test_a_broken_twin_breaks_the_budget(
    name: str, pair: Pair, token_ids: Tensor, uncached_logits: Tensor, oracle_logits: Tensor
) -> None:
    broken = pair.with_ops(DECODE_TWINS[name]).candidate.logits(token_ids)
    with pytest.raises(ComparisonError):
        check_within_budget(broken, uncached_logits, oracle_logits)


def test_an_epsilon_that_bfloat16s_noise_would_hide_breaks_equality(
    pair: Pair, token_ids: Tensor, uncached_logits: Tensor
) -> None:
    # 1e-5 for 1e-6 moves these logits by less than bfloat16 itself does, so that no budget
    # could tell; this is what bit equality is for.
    broken = pair.with_ops(DECODE_TWINS["epsilon 1e-5"]).candidate.logits(token_ids)
    with pytest.raises(ComparisonError):
        check_same_bits(broken, uncached_logits)
