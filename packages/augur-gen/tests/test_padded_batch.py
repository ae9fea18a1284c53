"""Padded batches: every row gets what it gets alone, and leaves when it has ended."""

import dataclasses
import random

import pytest
import torch

from augur_gen import (
    GenerationError,
    SamplingParams,
    Sequence,
    StaticKVCache,
    StopConditions,
    Stopwatch,
    generate,
    generate_batch,
)
from augur_model import EAGER, SDPA, QwenForCausalLM

LENGTHS = (1, 19, 7, 40, 2)
MOST = (9, 1, 4, 9, 2)
each_ops = pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])


@pytest.fixture
def prompts(config) -> list[list[int]]:
    source = random.Random(3)
    return [[source.randrange(config.vocab_size) for _ in range(length)] for length in LENGTHS]


def run(model, sequences, **options) -> list[dict[int, int]]:
    return list(generate_batch(model, sequences, **options))


@each_ops
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_each_row_has_its_own_prompt_stops_and_seed(make_model, prompts, ops, chunk_size):
    model = make_model(ops=ops)
    samplers = [SamplingParams(temperature=0 if row % 2 else 1, seed=row) for row in range(5)]
    sequences = [
        Sequence(prompt, StopConditions(most), sampler=sampler)
        for prompt, most, sampler in zip(prompts, MOST, samplers, strict=True)
    ]
    steps = run(model, sequences, chunk_size=chunk_size)
    for row, (sequence, sampler) in enumerate(zip(sequences, samplers, strict=True)):
        expected = generate(model, prompts[row], sequence.stop, sampler=sampler).run()
        assert sequence.token_ids == expected.token_ids
        assert sequence.token_ids == [step[row] for step in steps if row in step]
        assert sequence.finish_reason == "length"
    assert [len(step) for step in steps] == [5, 4, 3, 3, 2, 2, 2, 2, 2]


def finite(ops):
    """A table that lets no number out that is none."""

    def checked(compute):
        def computed(*args):
            result = compute(*args)
            assert result.isfinite().all(), compute.__name__
            return result

        return computed

    entries = {entry.name: checked(getattr(ops, entry.name)) for entry in dataclasses.fields(ops)}
    return dataclasses.replace(ops, **entries)


@each_ops
@pytest.mark.parametrize("windows", [(), (None, 5)], ids=str)
def test_one_token_beside_nine_hundred_makes_no_nan_in_any_layer(config, ops, windows):
    longer = dataclasses.replace(config, max_position_embeddings=904, attention_windows=windows)
    model = QwenForCausalLM(longer, finite(ops))
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        parameter.normal_(1.0 if "norm" in name else 0.0, 0.2, generator=generator)
    source = random.Random(4)
    prompts = [[source.randrange(61) for _ in range(length)] for length in (1, 900, 3)]
    sequences = [Sequence(prompt, StopConditions(4)) for prompt in prompts]
    run(model, sequences)
    for sequence, prompt in zip(sequences, prompts, strict=True):
        assert sequence.token_ids == generate(model, prompt, StopConditions(4)).run().token_ids


def test_a_row_that_has_ended_is_not_computed_any_more(model, prompts, monkeypatch):
    fed = []
    forward = type(model).forward

    def counted(self, token_ids, *args, **options):
        fed.append(len(token_ids))
        return forward(self, token_ids, *args, **options)

    monkeypatch.setattr(type(model), "forward", counted)
    sequences = [Sequence(p, StopConditions(n)) for p, n in zip(prompts, MOST, strict=True)]
    run(model, sequences)
    assert fed == [5, 4, 3, 3, 2, 2, 2, 2, 2]


def test_a_row_ends_by_its_own_eos_or_when_somebody_says_so(model, prompts):
    alone = generate(model, prompts[0], StopConditions(9)).run().token_ids
    eos = alone[3]
    stops = [StopConditions(9, {eos}), StopConditions(9), StopConditions(9)]
    sequences = [Sequence(p, stop) for p, stop in zip(prompts, stops, strict=False)]
    sequences[2].finish("cancelled")  # before it began
    for number, _ in enumerate(generate_batch(model, sequences)):
        if number == 4:
            sequences[1].finish("stop")
    assert sequences[0].token_ids == alone[: alone.index(eos) + 1]
    assert [s.finish_reason for s in sequences] == ["eos", "stop", "cancelled"]
    assert [len(s.token_ids) for s in sequences[1:]] == [5, 0]
    assert run(model, sequences) == []  # all have ended


def test_time_ends_a_row_between_tokens(model, prompts, clock):
    sequences = [
        Sequence(prompt, StopConditions(9, max_time_s=limit))
        for prompt, limit in zip(prompts, (2.5, 4.5), strict=False)
    ]
    for _ in generate_batch(model, sequences, stopwatch=Stopwatch(torch.device("cpu"), clock)):
        clock.move(1.0)
    assert [(s.finish_reason, len(s.token_ids)) for s in sequences] == [("time", 4), ("time", 6)]


def test_memory_is_one_cache_for_the_longest(model, prompts, monkeypatch):
    made = []
    for_model = StaticKVCache.for_model

    def recorded(*args, **options):
        made.append(for_model(*args, **options))
        return made[-1]

    monkeypatch.setattr(StaticKVCache, "for_model", recorded)
    run(model, [Sequence(p, StopConditions(n)) for p, n in zip(prompts, MOST, strict=True)])
    [cache] = made
    assert cache.capacity == 49


def test_what_the_model_cannot_answer_is_refused_before_anything_is_computed(model):
    sequences = [Sequence([1], StopConditions(3)), Sequence([1] * 510, StopConditions(3))]
    with pytest.raises(GenerationError, match="come to 513 tokens; the model has 512 positions"):
        generate_batch(model, sequences)
