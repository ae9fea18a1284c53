"""One sequence without a model: fed by hand, constrained, and one of many."""

import dataclasses
import json

import pytest
import torch
from torch import Tensor

from augur_gen import (
    Generation,
    GenerationError,
    SamplingParams,
    Sequence,
    StopConditions,
    StopStrings,
    generate,
)

CPU = torch.device("cpu")
VOCAB = 40


def single_out(token_id: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor([token_id]), VOCAB).float()


def random_rows(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, VOCAB, generator=torch.Generator().manual_seed(seed))


def test_it_says_what_to_feed_and_takes_what_comes_of_it():
    sequence = Sequence([1, 2, 3], StopConditions.of(9, [13]))
    fed = []
    for token_id in (11, 12, 13):
        assert sequence.finish_reason is None
        fed.append(sequence.next_input)
        assert sequence.take(single_out(token_id)) == token_id
    assert fed == [[1, 2, 3], [11], [12]]
    assert (sequence.token_ids, sequence.finish_reason) == ([11, 12, 13], "eos")


def test_many_can_be_stepped_together_each_with_its_own_way_to_choose():
    """A scheduler's loop: each row's tokens are those of its run alone."""
    rows = random_rows(12)
    ways = [
        {},
        {"sampler": SamplingParams(seed=5, presence_penalty=1.0)},
        {"sampler": SamplingParams(seed=6, temperature=2.0, logprobs=2)},
    ]
    stops = [StopConditions(7), StopConditions(12), StopConditions.of(12, range(20))]

    def sequences():
        return [Sequence([1], stop, **way) for stop, way in zip(stops, ways, strict=True)]

    alone = sequences()
    for sequence in alone:
        for row in rows:
            if sequence.finish_reason is None:
                sequence.take(row[None])
    together = running = sequences()
    for row in rows:
        running = [one for one in running if one.finish_reason is None]
        for sequence in running:
            sequence.take(row[None])
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]
    assert [one.finish_reason for one in together] == ["length", "length", "eos"]
    assert [len(one.token_ids) for one in together][:2] == [7, 12]
    assert [one.logprobs is None for one in together] == [True, True, False]


def test_the_first_reason_stays():
    sequence = Sequence([1], StopConditions(5, max_time_s=1.0))
    sequence.look_at_time(0.5)
    assert sequence.finish_reason is None
    sequence.look_at_time(1.0)
    sequence.finish("cancelled")
    assert sequence.finish_reason == "time"


class OnlyThese:
    """Allows the ids of one set after the other, and all once there is none left."""

    def __init__(self, *sets: set[int]) -> None:
        self.sets = list(sets)
        self.accepted: list[int] = []

    def mask(self, logits: Tensor) -> Tensor:
        if len(self.accepted) < len(self.sets):
            forbidden = [i for i in range(VOCAB) if i not in self.sets[len(self.accepted)]]
            logits[:, forbidden] = -torch.inf
        return logits

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"sampler": lambda logits: logits.argmax(-1)},
        {"sampler": SamplingParams(temperature=0, repetition_penalty=1.3)},
        {"sampler": SamplingParams(seed=1, temperature=50.0)},
        {"sampler": SamplingParams(seed=2, top_k=3, top_p=0.8, logit_bias={0: 100.0})},
        {"sampler": SamplingParams(seed=3, temperature=1e6, min_p=0.0, logprobs=3)},
    ],
)
def test_whatever_chooses_chooses_from_what_the_constraint_leaves(logit_steps, way):
    sets = [{7}, {1, 30}, {2, 3, 4}, {39}]
    constraint = OnlyThese(*sets)
    rows = random_rows(6)
    generation = Generation(
        logit_steps(rows), [1], StopConditions(6), device=CPU, constraint=constraint, **way
    )
    result = generation.run()
    assert all(found in allowed for found, allowed in zip(result.token_ids, sets, strict=False))
    assert constraint.accepted == result.token_ids
    assert len(result.token_ids) == 6


def test_a_constraint_leaves_seed_and_logprobs_as_they_are(logit_steps):
    """The same numbers are drawn, and probabilities are the model's own, not those of the rest."""
    rows, params = random_rows(5), SamplingParams(seed=4, logprobs=1)

    def run(constraint):
        return Generation(
            logit_steps(rows),
            [1],
            StopConditions(5),
            device=CPU,
            sampler=params,
            constraint=constraint,
        ).run()

    free, allowing_all = run(None), run(OnlyThese())
    assert dataclasses.replace(allowing_all, timings=free.timings) == free
    bound = run(OnlyThese({9}))
    assert bound.token_ids[0] == 9
    assert bound.logprobs[0].logprob == pytest.approx(float(rows[0].log_softmax(-1)[9]), abs=1e-6)
    assert bound.logprobs[0].top == free.logprobs[0].top
    assert bound.token_ids[1:] == free.token_ids[1:]


def test_it_acts_after_the_minimum_of_tokens_and_before_the_stop(logit_steps):
    stop = StopConditions.of(6, eos_token_ids=[5], min_new_tokens=2)
    constraint = OnlyThese({5, 8}, {5, 8}, {5, 8})
    result = Generation(
        logit_steps(single_out(5).expand(6, -1)), [1], stop, device=CPU, constraint=constraint
    ).run()
    assert (result.token_ids, result.finish_reason) == ([8, 8, 5], "eos")


def test_a_constraint_that_leaves_nothing_is_named_and_nothing_is_taken(logit_steps):
    stop = StopConditions.of(6, eos_token_ids=[5], min_new_tokens=2)
    constraint = OnlyThese({8}, {5})
    generation = Generation(
        logit_steps(random_rows(6)), [1], stop, device=CPU, constraint=constraint
    )
    assert next(generation) == 8
    for _ in range(2):
        with pytest.raises(GenerationError, match="after 1 tokens the constraint leaves none"):
            next(generation)
    constraint.sets[1] = {6}
    assert next(generation) == 6
    assert constraint.accepted == [8, 6]


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (lambda logits: logits[0], r"logits \[40\], expected \[1, 40\]"),
        (lambda logits: logits > 0, r"torch.bool logits \[1, 40\], expected .* of a float dtype"),
        (lambda _: None, "gives NoneType, expected"),
    ],
    ids=["shape", "bool", "nothing"],
)
def test_what_is_not_the_rows_logits_is_no_constraint(logit_steps, mask, said):
    constraint = OnlyThese()
    constraint.mask = mask
    generation = Generation(
        logit_steps(random_rows(1)), [1], StopConditions(1), device=CPU, constraint=constraint
    )
    with pytest.raises(GenerationError, match=said):
        next(generation)


def test_a_constraint_that_breaks_off_changes_no_later_token(logit_steps):
    class BreaksOff(OnlyThese):
        has_broken = False

        def accept(self, token_id):
            if len(self.accepted) == 1 and not self.has_broken:
                self.has_broken = True
                raise LookupError("a table that was not there")
            super().accept(token_id)

    def generation(constraint):
        params = SamplingParams(temperature=1.0, seed=1, repetition_penalty=1.5, logprobs=1)
        steps = logit_steps(random_rows(6))
        stop = StopConditions(6)
        return Generation(steps, [1], stop, device=CPU, sampler=params, constraint=constraint)

    every = [set(range(40))] * 6
    undisturbed = generation(OnlyThese(*every)).run()
    disturbed = generation(BreaksOff(*every))
    next(disturbed)
    with pytest.raises(LookupError):
        next(disturbed)
    result = disturbed.run()
    assert result.token_ids == undisturbed.token_ids
    assert result.logprobs == undisturbed.logprobs


class JsonOfDigits:
    """A small grammar over the ids of characters: `[digit, digit, ...]` of at most four digits."""

    def __init__(self) -> None:
        self.text = ""

    def mask(self, logits: Tensor) -> Tensor:
        if self.text == "":
            allowed = "["
        elif self.text[-1] in "[,":
            allowed = "123456789"
        elif self.text.endswith("]"):
            allowed = "\n"
        else:
            allowed = "]" if sum(map(str.isdigit, self.text)) == 4 else ",]"
        bias = torch.full_like(logits, -torch.inf)
        bias[:, [ALPHABET.index(character) for character in allowed]] = 0.0
        return logits + bias

    def accept(self, token_id: int) -> None:
        self.text += ALPHABET[token_id]


ALPHABET = "\n[],0123456789 abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("seed", range(5))
def test_a_grammar_yields_valid_json_from_a_random_model_at_any_temperature(model, prompt, seed):
    params = SamplingParams(temperature=3.0, seed=seed, frequency_penalty=2.0, logprobs=0)
    constraint = JsonOfDigits()
    stop = StopConditions.of(30, eos_token_ids=[0])
    result = generate(model, prompt, stop, sampler=params, constraint=constraint).run()
    text = "".join(ALPHABET[token_id] for token_id in result.token_ids)
    assert result.finish_reason == "eos"
    assert 1 <= len(json.loads(text)) <= 4
    assert len(result.logprobs) == len(result.token_ids)
    assert StopStrings(["]"]).push(text) == text[: text.index("]")]
