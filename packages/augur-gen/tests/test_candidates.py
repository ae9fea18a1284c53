"""The few candidates are exactly the tokens that the plain cuts leave, or there is no answer."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from augur_gen import SamplingParams
from augur_gen import candidates as candidates_module
from augur_gen.candidates import Candidates, few_candidates
from augur_gen.logits_pipeline import apply_cuts
from augur_gen.stable_top_p import apply_top_p_stably

INF = math.inf
VOCAB = 2000


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def peaked(seed: int) -> Tensor:
    """A flat tail with some tokens well above it, as a language model's logits are."""
    logits = torch.randn(VOCAB, generator=generator(seed)) * 2
    likely = torch.randint(VOCAB, (30,), generator=generator(seed + 1))
    logits[likely] += 10 * torch.rand(30, generator=generator(seed + 2))
    return logits


INPUTS = {
    "peaked": peaked,
    # bfloat16 has 8 bits for a number: equals are common.
    "equals": lambda seed: peaked(seed).bfloat16().float(),
    "many equals": lambda seed: (peaked(seed) / 3).round(),
    "flat": lambda seed: torch.randn(VOCAB, generator=generator(seed)) / 10,
    "excluded": lambda seed: peaked(seed).masked_fill(peaked(seed + 9) > -2, -INF),
    "small": lambda seed: peaked(seed)[:7],
}
CUTS = [
    dict(zip(("top_k", "top_p", "min_p"), values, strict=True))
    for values in itertools.product(
        (None, 1, 2, 20, 128, 500, 10**6), (1.0, 0.8, 0.95, 0.01, 0.0), (0.0, 0.05, 1.0)
    )
]


def check(found: Candidates, logits: Tensor, params: SamplingParams) -> None:
    plain = apply_cuts(logits[None], params, apply_top_p_stably)[0]
    scattered = torch.full_like(logits, -INF)
    scattered[found.token_ids] = found.logits
    assert torch.equal(scattered, plain)
    assert torch.equal(found.token_ids, found.token_ids.unique())
    assert (found.logits.dtype, found.token_ids.dtype) == (torch.float32, torch.int64)


@pytest.mark.parametrize("name", INPUTS)
def test_they_are_what_the_plain_cuts_leave(name):
    answers = 0
    for seed, cuts in enumerate(CUTS):
        logits, params = INPUTS[name](seed), SamplingParams(**cuts)
        found = few_candidates(logits, params)
        if found is not None:
            check(found, logits, params)
            answers += 1
    assert answers > len(CUTS) // 4


def test_what_people_ask_for_nearly_always_has_an_answer():
    params = [
        SamplingParams(top_k=20, top_p=0.8),
        SamplingParams(top_k=50),
        SamplingParams(top_p=0.8),
        SamplingParams(min_p=0.05),
    ]
    for name in ("peaked", "equals"):
        answers = [
            few_candidates(INPUTS[name](seed), some) for seed in range(50) for some in params
        ]
        assert answers.count(None) <= len(answers) // 20


def test_where_nothing_is_cut_there_is_no_answer():
    assert few_candidates(peaked(0), SamplingParams()) is None
    assert few_candidates(peaked(0), SamplingParams(top_k=10**6)) is None


def test_more_equals_of_the_kth_than_are_looked_at_have_no_answer():
    logits = torch.zeros(VOCAB)
    logits[7] = 1.0
    assert few_candidates(logits, SamplingParams(top_k=2)) is None
    logits[100:] = -1.0
    found = few_candidates(logits[:110], SamplingParams(top_k=60))
    check(found, logits[:110], SamplingParams(top_k=60))
    assert len(found.token_ids) == 100


@pytest.mark.parametrize("cuts", [{"top_k": 4, "top_p": 0.5}, {"top_k": 4, "min_p": 0.5}])
def test_a_token_so_close_to_a_limit_that_rounding_decides_has_no_answer(cuts):
    close = torch.tensor([0.25, 0.25, 0.25, 0.25] if "top_p" in cuts else [0.5, 0.25, 0.2, 0.05])
    assert few_candidates(close.log(), SamplingParams(**cuts)) is None
    clear = close + torch.tensor([0.002, -0.001, -0.001, 0.0])
    check(few_candidates(clear.log(), SamplingParams(**cuts)), clear.log(), SamplingParams(**cuts))


def test_a_nucleus_that_reaches_beyond_the_few_has_no_answer():
    assert few_candidates(INPUTS["flat"](0), SamplingParams(top_p=0.9)) is None


def test_a_cut_among_equals_beyond_the_few_has_no_answer():
    logits = torch.zeros(VOCAB)
    logits[:3] = 30.0
    logits[3:300] = 27.0
    # The three weigh 3 and the 297 equals 14.8: the cut lies in the equals, seen only in part.
    assert few_candidates(logits, SamplingParams(top_p=0.5)) is None


def test_without_the_margin_for_rounding_some_answers_would_be_wrong(monkeypatch):
    """The twin: tokens at the limit are decided in float64, the plain way in float32."""
    monkeypatch.setattr(candidates_module, "ROUNDING", 0.0)
    wrong = 0
    for seed in range(200):
        logits = torch.randint(2, 9, (40,), generator=generator(seed)).float().log()
        params = SamplingParams(top_k=40, top_p=float((seed % 9 + 1) / 10))
        found = few_candidates(logits, params)
        plain = apply_cuts(logits[None], params, apply_top_p_stably)[0]
        wrong += found is not None and len(found.token_ids) != int((plain > -INF).sum())
    assert wrong
