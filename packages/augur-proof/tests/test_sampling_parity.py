"""Each step of sampling gives, to the last bit, what transformers' own processor gives."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from augur_gen import SamplingParams, StopConditions, generate, process_logits
from augur_gen.logit_processors import (
    apply_logit_bias,
    apply_min_p,
    apply_repetition_penalty,
    apply_temperature,
    apply_top_k,
    apply_top_p,
    suppress_tokens,
)
from augur_gen.stable_top_p import apply_top_p_stably
from augur_proof import Referee, random_token_ids, tiny_pair

theirs_of = pytest.importorskip("transformers.generation.logits_process")

INF = math.inf
NO_TOKENS = torch.zeros(1, 0, dtype=torch.int64)
QWEN_VOCAB = 151_936


def random_logits(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[-1])) * 4


def one_survivor() -> Tensor:
    logits = torch.full((2, 50), -INF)
    logits[0, 3], logits[1, 49] = 1.5, -2.5
    return logits


LOGITS = {
    "random": random_logits(3, 257),
    "a whole vocabulary": random_logits(1, QWEN_VOCAB),
    "ties": (random_logits(3, 257) / 4).round(),
    "ties of bfloat16": random_logits(2, 5000).bfloat16().float(),
    "all tied": torch.zeros(2, 40),
    "excluded": random_logits(3, 257).masked_fill(random_logits(3, 257) > 1, -INF),
    "one survivor": one_survivor(),
    "one token": torch.tensor([[-3.0]]),
    "two zeros": torch.tensor([[0.0, -0.0, 1.0, -1.0]]),
    "0.5 0.41 0.09": torch.tensor([[0.5, 0.41, 0.09]]).log(),
}


def seen_tokens(logits: Tensor) -> Tensor:
    """Thirty tokens a row, some of them twice."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(logits.shape[-1], (logits.shape[0], 30), generator=generator)


Processor = Callable[[Tensor], Tensor]


def repetition(penalty: float) -> tuple[Processor, Processor]:
    return (
        lambda logits: apply_repetition_penalty(logits, seen_tokens(logits), penalty),
        lambda logits: theirs_of.RepetitionPenaltyLogitsProcessor(penalty)(
            seen_tokens(logits), logits
        ),
    )


def bias(logit_bias: dict[int, float]) -> tuple[Processor, Processor]:
    sequences = {(token_id,): value for token_id, value in logit_bias.items()}
    return (
        lambda logits: apply_logit_bias(logits, logit_bias),
        lambda logits: theirs_of.SequenceBiasLogitsProcessor(sequences)(NO_TOKENS, logits),
    )


def suppression(token_ids: list[int]) -> tuple[Processor, Processor]:
    return (
        lambda logits: suppress_tokens(logits, token_ids),
        lambda logits: theirs_of.MinNewTokensLengthLogitsProcessor(5, 3, token_ids)(
            torch.zeros(1, 7, dtype=torch.int64), logits
        ),
    )


def warper(ours: Callable[[Tensor, Any], Tensor], theirs: Any, value: Any) -> Any:
    return (lambda logits: ours(logits, value), lambda logits: theirs(value)(NO_TOKENS, logits))


PROCESSORS = {
    **{f"repetition_penalty {value}": repetition(value) for value in (0.5, 1.0, 1.05, 2.0)},
    "logit_bias": bias({0: 2.5}),
    "logit_bias that forbids": bias({0: -INF}),
    "suppressed tokens": suppression([0, 99, 10**6]),
    **{
        f"temperature {value}": warper(apply_temperature, theirs_of.TemperatureLogitsWarper, value)
        for value in (1e-6, 0.7, 1.0, 3.0)
    },
    **{
        f"top_k {value}": warper(apply_top_k, theirs_of.TopKLogitsWarper, value)
        for value in (1, 2, 20, 257, 10**6)
    },
    **{
        f"top_p {value}": warper(apply_top_p, theirs_of.TopPLogitsWarper, value)
        for value in (0.0, 0.01, 0.3, 0.8, 0.9, 0.999, 1.0)
    },
    **{
        f"min_p {value}": warper(apply_min_p, theirs_of.MinPLogitsWarper, value)
        for value in (0.0, 0.05, 0.5, 1.0)
    },
}


@pytest.mark.parametrize("name", LOGITS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_processor_equals_transformers(processor: str, name: str) -> None:
    ours, theirs = PROCESSORS[processor]
    logits = LOGITS[name]
    # Some of theirs write into their input.
    assert torch.equal(ours(logits), theirs(logits.clone()))


@pytest.mark.parametrize("top_p", [0.0, 0.01, 0.3, 0.8, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("name", LOGITS)
def test_the_stable_top_p_equals_transformers_with_a_sort_that_puts_lowest_ids_last(
    name: str, top_p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = apply_top_p_stably(LOGITS[name], top_p)
    sort = torch.sort

    def lowest_id_of_equals_last(logits: Tensor, **_: bool) -> tuple[Tensor, Tensor]:
        values, mirrored = sort(logits.flip(-1), stable=True)
        return values, logits.shape[-1] - 1 - mirrored

    monkeypatch.setattr(torch, "sort", lowest_id_of_equals_last)
    assert torch.equal(found, theirs_of.TopPLogitsWarper(top_p)(NO_TOKENS, LOGITS[name]))


def wrong_way(logits: Tensor) -> Tensor:
    seen = logits.gather(1, seen_tokens(logits))
    return logits.scatter(1, seen_tokens(logits), seen / 2.0)


def one_too_many(logits: Tensor) -> Tensor:
    ascending, order = logits.sort()
    removed = ascending.softmax(-1).cumsum(-1).roll(1, -1) <= 1 - 0.8
    removed[..., -1] = False
    return logits.masked_fill(removed.scatter(-1, order, removed), -INF)


BROKEN = {
    "a penalty turned the wrong way for negative logits": ("repetition_penalty 2.0", wrong_way),
    "a top_p that keeps one too many": ("top_p 0.8", one_too_many),
    "a top_k that drops ties": (
        "top_k 20",
        lambda logits: torch.full_like(logits, -INF).scatter(1, *logits.topk(20)[::-1]),
    ),
    "a min_p of the sum and not of the likeliest": (
        "min_p 0.05",
        lambda logits: logits.masked_fill(logits.softmax(-1) < 0.05, -INF),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_processor_would_be_noticed(name: str) -> None:
    processor, broken = BROKEN[name]
    _, theirs = PROCESSORS[processor]
    logits = LOGITS["ties"]
    assert not torch.equal(broken(logits), theirs(logits.clone()))


PARAMS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "usual": {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05},
    "everything": {
        "temperature": 1.5,
        "top_k": 60,
        "top_p": 0.95,
        "min_p": 0.02,
        "repetition_penalty": 1.3,
        "logit_bias": {3: 2.0, 5: -4.0},
    },
    # Cuts that bite into each other: another order would leave other tokens.
    "sharp": {"temperature": 0.3, "top_k": 9, "top_p": 0.6, "min_p": 0.15},
}
EOS = [7, 11]


def transformers_run(
    referee: Referee, prompt: Tensor, params: SamplingParams, min_new_tokens: int
) -> tuple[list[int], Tensor, Tensor]:
    """New tokens, and for each the raw and the processed logits, `[tokens, vocab_size]`."""
    torch.manual_seed(0)
    output = referee.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=params.temperature > 0,
        max_new_tokens=24,
        min_new_tokens=min_new_tokens,
        eos_token_id=EOS,
        pad_token_id=0,
        repetition_penalty=params.repetition_penalty,
        sequence_bias={(token,): value for token, value in params.logit_bias.items()} or None,
        output_logits=True,
        output_scores=True,
        return_dict_in_generate=True,
        **(
            {
                "temperature": params.temperature,
                "top_k": params.top_k or 0,
                "top_p": params.top_p,
                "min_p": params.min_p or None,
            }
            if params.temperature > 0
            else {}
        ),
    )
    token_ids = output.sequences[0, prompt.shape[1] :].tolist()
    return token_ids, torch.cat(output.logits), torch.cat(output.scores)


@pytest.mark.parametrize("name", PARAMS)
def test_the_whole_pipeline_equals_transformers_at_every_step_of_a_sampled_text(name: str) -> None:
    pair = tiny_pair("untied", torch.float32)
    params = SamplingParams(**PARAMS[name])
    stop = StopConditions.of(24, EOS, min_new_tokens=20)
    num_kept = set()
    for prompt in random_token_ids(4, 11).split(1):
        token_ids, raw, expected = transformers_run(pair.referee, prompt, params, 20)
        assert len(token_ids) >= 20
        for index, token_id in enumerate(token_ids):
            so_far = torch.cat((prompt, torch.tensor([token_ids[:index]], dtype=torch.int64)), -1)
            allowed = stop.suppress(raw[index : index + 1], index)
            found = process_logits(allowed, params, so_far, prompt.shape[1])
            assert torch.equal(found, expected[index : index + 1])
            assert found[0, token_id] > -INF
            num_kept.add(int((found > -INF).sum()))
    assert len(num_kept) > 1 or name == "nothing"


def test_the_cuts_in_another_order_would_be_noticed() -> None:
    """Every other order of the sharp cuts leaves other tokens somewhere in 200 rows."""
    logits = random_logits(200, 128) / 4
    cuts = {
        "temperature": lambda values: apply_temperature(values, 0.3),
        "top_k": lambda values: apply_top_k(values, 9),
        "top_p": lambda values: apply_top_p(values, 0.6),
    }
    expected = process_logits(
        logits, SamplingParams(temperature=0.3, top_k=9, top_p=0.6), NO_TOKENS.expand(200, -1), 0
    )
    found_by_order = {}
    for order in itertools.permutations(cuts):
        found = logits
        for name in order:
            found = cuts[name](found)
        found_by_order[order] = found
    same = {
        order
        for order, found in found_by_order.items()
        if torch.equal(found > -INF, expected > -INF)
    }
    # Dividing by a temperature moves no logit past another, so top_k may come before it.
    assert same == {("temperature", "top_k", "top_p"), ("top_k", "temperature", "top_p")}


@pytest.mark.parametrize("min_new_tokens", [0, 24])
@pytest.mark.parametrize("penalty", [1.0, 1.3, 0.8])
def test_greedy_with_a_penalty_bias_and_minimum_gives_transformers_tokens(
    penalty: float, min_new_tokens: int
) -> None:
    pair = tiny_pair("untied", torch.float32)
    params = SamplingParams(
        temperature=0, repetition_penalty=penalty, logit_bias={7: 0.8, 12: -1.0}
    )
    stop = StopConditions.of(24, EOS, min_new_tokens=min_new_tokens)
    for prompt in random_token_ids(4, 11).split(1):
        expected, _, _ = transformers_run(pair.referee, prompt, params, min_new_tokens)
        found = generate(pair.candidate.model, prompt[0].tolist(), stop, sampler=params).run()
        assert found.token_ids == expected
        assert len(expected) == 24 or min_new_tokens == 0
