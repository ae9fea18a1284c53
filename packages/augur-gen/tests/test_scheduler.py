"""The scheduler: who is fed when, who waits, who ends; and that nobody feels the others."""

import dataclasses
import random
from collections import Counter

import pytest
import torch
from torch import Tensor

from augur_gen import (
    BlockPool,
    CacheFullError,
    GenerationError,
    Request,
    SamplingParams,
    Scheduler,
    Sequence,
    StepResult,
    StopConditions,
    Stopwatch,
    generate,
    packed_forward,
    packed_forward_by_sequence,
)
from augur_model import EAGER, SDPA, QwenForCausalLM

BLOCK = 4
LENGTHS = (1, 19, 7, 40, 3, 4, 5, 16)
each_ops = pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])


class Recorder:
    """A constraint that forbids nothing, and keeps the logits."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []

    def mask(self, logits: Tensor) -> Tensor:
        self.logits.append(logits[0].clone())
        return logits

    def accept(self, token_id: int) -> None:
        pass


def some_prompts(lengths=LENGTHS, seed: int = 3) -> list[list[int]]:
    source = random.Random(seed)
    return [[source.randrange(60) for _ in range(length)] for length in lengths]


def begin(model: QwenForCausalLM, num_blocks: int = 64, **options) -> tuple[Scheduler, BlockPool]:
    each = BlockPool.block_bytes(model.config, model.dtype, BLOCK)
    pool = BlockPool.for_model(model, num_blocks * each, block_size=BLOCK)
    assert pool.num_blocks == num_blocks
    return Scheduler(model, pool, **{"max_running": 4, "max_step_tokens": 24} | options), pool


def step(scheduler: Scheduler, pool: BlockPool) -> StepResult:
    """One step, after which every block is where it should be."""
    result = scheduler.step()
    tables = [request.table for request in scheduler.running]
    pool.check_integrity(tables)
    held = Counter(block for table in tables for block in table.blocks)
    total = sum(-(-table.length // BLOCK) for table in tables)
    assert pool.num_in_use == total - sum(count - 1 for count in held.values())
    assert pool.num_in_use + pool.num_available == pool.num_blocks
    return result


def run(scheduler: Scheduler, pool: BlockPool) -> list[StepResult]:
    results = []
    while scheduler.has_work:
        results.append(step(scheduler, pool))
    assert pool.num_available == pool.num_blocks
    return results


def alone(model: QwenForCausalLM, prompt: list[int], most: int = 9, **options) -> list[int]:
    return generate(model, prompt, StopConditions(most), **options).run().token_ids


def check(model: QwenForCausalLM, requests: list[Request]) -> None:
    for request in requests:
        sequence = request.sequence
        expected = alone(model, sequence.prompt_token_ids, sequence.stop.max_new_tokens)
        assert (sequence.token_ids, sequence.finish_reason) == (expected, "length")


@each_ops
@pytest.mark.parametrize(
    "num_blocks",
    [pytest.param(64, marks=pytest.mark.gate), 15],
    ids=["room", "preempted"],
)
@pytest.mark.parametrize(
    "windows", [(), (12, 2), pytest.param((None, 5), marks=pytest.mark.gate)], ids=str
)
def test_logits_with_the_usual_ops_are_close_to_the_lone_runs(config, ops, num_blocks, windows):
    model = QwenForCausalLM(dataclasses.replace(config, attention_windows=windows), ops)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        parameter.normal_(1.0 if "norm" in name else 0.0, 0.2, generator=generator)
    prompts = some_prompts()
    prompts += [[*prompts[3][:21], 5], prompts[7]]
    expected = [Recorder() for _ in prompts]
    for prompt, recorder in zip(prompts, expected, strict=True):
        alone(model, prompt, constraint=recorder)
    for order in (prompts, prompts[::-1]):
        scheduler, pool = begin(model, num_blocks)
        found = [Recorder() for _ in prompts]
        requests = [
            scheduler.add(Sequence(prompt, StopConditions(9), constraint=recorder))
            for prompt, recorder in zip(order, found, strict=True)
        ]
        results = run(scheduler, pool)
        assert any(result.preempted for result in results) == (num_blocks < 64)
        check(model, requests)
        recorders = expected if order is prompts else expected[::-1]
        for one, other in zip(found, recorders, strict=True):
            torch.testing.assert_close(
                torch.stack(one.logits), torch.stack(other.logits), atol=1e-4, rtol=1e-4
            )


def test_a_seed_gives_the_tokens_in_company_that_it_gives_alone(model):
    scheduler, pool = begin(model)
    prompts = some_prompts()
    params = [SamplingParams(temperature=0.9, seed=seed) for seed in range(len(prompts))]
    requests = [
        scheduler.add(Sequence(prompt, StopConditions(9), sampler=one))
        for prompt, one in zip(prompts, params, strict=True)
    ]
    run(scheduler, pool)
    for request, prompt, one in zip(requests, prompts, params, strict=True):
        assert request.sequence.token_ids == alone(model, prompt, sampler=one)
        assert request.result().sampling == one


class OddTokens:
    """A grammar that allows odd tokens, and the end."""

    def mask(self, logits: Tensor) -> Tensor:
        logits[:, 2::2] = -torch.inf
        return logits

    def accept(self, token_id: int) -> None:
        assert token_id % 2 or token_id == 0


def test_penalties_logprobs_constraints_and_stops_are_each_ones_own(model):
    """To the bit, with the sums of a sequence alone, and each prompt in one chunk."""
    asked = [
        SamplingParams(temperature=0, repetition_penalty=1.5, logprobs=2),
        SamplingParams(temperature=1, presence_penalty=0.7, frequency_penalty=0.3, seed=1),
        SamplingParams(temperature=0.8, top_k=9, seed=2, logprobs=0),
        SamplingParams(temperature=1.2, top_p=0.8, min_p=0.01, seed=3, logit_bias={7: 2.0}),
        SamplingParams(temperature=0, logprobs=5),
    ]
    prompts = some_prompts((9, 1, 17, 4, 30))
    stops = [StopConditions(12, {0, 9, place}, min_new_tokens=place) for place in range(5)]

    def constraint(place: int) -> OddTokens | None:
        return OddTokens() if place % 2 else None

    scheduler, pool = begin(
        model, max_running=5, max_step_tokens=99, forward=packed_forward_by_sequence
    )
    requests = [
        scheduler.add(
            Sequence(prompts[place], stops[place], sampler=one, constraint=constraint(place))
        )
        for place, one in enumerate(asked)
    ]
    run(scheduler, pool)
    for place, (request, one) in enumerate(zip(requests, asked, strict=True)):
        expected = generate(
            model, prompts[place], stops[place], sampler=one, constraint=constraint(place)
        ).run()
        found = request.result()
        assert (found.token_ids, found.finish_reason) == (
            expected.token_ids,
            expected.finish_reason,
        )
        assert (found.logprobs, found.sampling) == (expected.logprobs, expected.sampling)
        assert (found.logprobs is None) == (one.logprobs is None)


def test_the_same_submissions_give_the_same_schedule(model):
    schedules = []
    for _ in range(2):
        scheduler, pool = begin(model, 15)
        requests = [scheduler.add(Sequence(p, StopConditions(9))) for p in some_prompts()]
        schedules.append(
            [
                [(requests.index(request), start, count) for request, start, count in result.fed]
                for result in run(scheduler, pool)
            ]
        )
    assert schedules[0] == schedules[1]


def test_who_decodes_comes_first_and_prompts_share_what_is_left_in_the_order_of_coming(model):
    scheduler, pool = begin(model, max_step_tokens=10)
    first, second, third, fourth = (
        scheduler.add(Sequence(prompt, StopConditions(9))) for prompt in some_prompts((3, 20, 5, 2))
    )
    fed = [step(scheduler, pool).fed for _ in range(4)]
    assert fed[0] == [(first, 0, 3), (second, 0, 7)]
    assert fed[1] == [(first, 3, 1), (second, 7, 9)]
    assert fed[2] == [(first, 4, 1), (second, 16, 4), (third, 0, 5)]
    assert fed[3] == [(first, 5, 1), (second, 20, 1), (third, 5, 1), (fourth, 0, 2)]


def test_no_step_is_larger_than_it_may_be_nor_are_more_fed(model):
    scheduler, pool = begin(model, max_step_tokens=7, max_running=3)
    requests = [scheduler.add(Sequence(p, StopConditions(9))) for p in some_prompts()]
    for result in run(scheduler, pool):
        assert sum(count for _, _, count in result.fed) <= 7
        assert len(result.fed) <= 3
    check(model, requests)


def test_whoever_came_first_is_admitted_first_however_small_the_others_are(model):
    scheduler, pool = begin(model, num_blocks=10)
    large, larger, small = (
        scheduler.add(Sequence(prompt, StopConditions(4))) for prompt in some_prompts((24, 30, 1))
    )
    while larger not in scheduler.running:
        step(scheduler, pool)
        assert small not in scheduler.running
    assert large.has_ended
    run(scheduler, pool)
    check(model, [large, larger, small])


def test_a_prompt_that_is_fed_in_chunks_keeps_its_blocks_from_those_who_come_later(model):
    """Its first chunk leaves blocks free, that the rest of it will need."""
    scheduler, pool = begin(model, num_blocks=10, max_step_tokens=10)
    long, late = (
        scheduler.add(Sequence(prompt, StopConditions(2))) for prompt in some_prompts((30, 12))
    )
    results = run(scheduler, pool)
    assert not any(result.preempted for result in results)
    assert long.has_ended
    check(model, [long, late])


def test_out_of_blocks_the_last_admitted_waits_and_is_computed_anew(model):
    scheduler, pool = begin(model, num_blocks=10)
    requests = [
        scheduler.add(Sequence(prompt, StopConditions(12))) for prompt in some_prompts((8, 9, 10))
    ]
    preempted = []
    for result in run(scheduler, pool):
        preempted += result.preempted
    assert preempted
    assert requests[0] not in preempted
    assert [request.num_preemptions for request in requests] == [
        preempted.count(request) for request in requests
    ]
    check(model, requests)


def test_one_larger_than_the_pool_is_refused_before_anything_runs(model):
    scheduler, _ = begin(model, num_blocks=5)
    scheduler.add(Sequence([1] * 16, StopConditions(5)))  # of which the last is never fed
    with pytest.raises(CacheFullError, match=r"17 tokens and 5 new .* 6 blocks; the whole .* 5"):
        scheduler.add(Sequence([1] * 17, StopConditions(5)))
    assert len(scheduler.waiting) == 1


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([1, 61], {}, "token 1 of the prompt is 61; the model's vocabulary is 0 to 60"),
        ([1] * 500, {}, "come to 513 tokens; the model has 512 positions"),
        ([1], {"sampler": SamplingParams(logit_bias={61: 1.0})}, "logit_bias names token 61"),
    ],
    ids=["a token", "positions", "a bias"],
)
def test_what_the_model_cannot_answer_is_refused_before_anything_runs(
    model, prompt, options, message
):
    scheduler, _ = begin(model, num_blocks=200)
    with pytest.raises(GenerationError, match=message):
        scheduler.add(Sequence(prompt, StopConditions(13), **options))
    assert not scheduler.has_work


@pytest.mark.parametrize(("running", "tokens"), [(0, 5), (5, 4)])
def test_every_sequence_that_runs_needs_a_token_of_each_step(model, running, tokens):
    with pytest.raises(GenerationError, match=f"max_running is {running} and max_step.* {tokens}"):
        begin(model, max_running=running, max_step_tokens=tokens)


@each_ops
def test_a_cancelled_one_frees_its_blocks_at_once_and_disturbs_nobody(make_model, ops):
    model = make_model(ops=ops)
    scheduler, pool = begin(model)
    requests = [scheduler.add(Sequence(p, StopConditions(9))) for p in some_prompts()]
    for _ in range(4):
        step(scheduler, pool)
    running, waiting = scheduler.running[1], scheduler.waiting[-1]
    in_use, held = pool.num_in_use, len(running.table.blocks)
    scheduler.cancel(running)
    assert pool.num_in_use == in_use - held
    scheduler.cancel(waiting)
    scheduler.cancel(running)  # once more is once too often, and nothing happens
    num_tokens = len(running.sequence.token_ids)
    ended = [request for result in run(scheduler, pool) for request in result.ended]
    assert ended[:2] == [running, waiting]
    assert Counter(ended) == Counter(requests)
    for request in (running, waiting):
        assert request.result().finish_reason == "cancelled"
    assert len(running.sequence.token_ids) == num_tokens
    check(model, [request for request in requests if request not in (running, waiting)])


def test_a_sequence_that_is_ended_from_elsewhere_leaves_in_the_next_step(model):
    scheduler, pool = begin(model, max_running=2)
    one, other, late, last = (
        scheduler.add(Sequence(p, StopConditions(9))) for p in some_prompts((5, 6, 12, 3))
    )
    step(scheduler, pool)
    late.sequence.finish("stop")
    assert step(scheduler, pool).ended == []  # its turn has not come
    one.sequence.finish("stop")
    assert step(scheduler, pool).ended == [one, late]
    assert scheduler.running == (other, last)
    assert late.sequence.token_ids == []
    run(scheduler, pool)
    check(model, [other, last])


def raising(_logits: Tensor) -> Tensor:
    raise RuntimeError("a sampler that breaks")


class Dumb:
    """A grammar that allows nothing after two tokens."""

    def __init__(self) -> None:
        self.num_tokens = 0

    def mask(self, logits: Tensor) -> Tensor:
        return logits if self.num_tokens < 2 else torch.full_like(logits, -torch.inf)

    def accept(self, _token_id: int) -> None:
        self.num_tokens += 1


FAILING = {
    "a sampler": ({"sampler": raising}, "a sampler that breaks"),
    "a token that is none": ({"sampler": lambda _: torch.tensor([61])}, "chose token 61"),
    "a constraint": ({"constraint": Dumb()}, "leaves none to choose"),
}


@each_ops
@pytest.mark.parametrize(("options", "message"), FAILING.values(), ids=FAILING)
def test_one_that_fails_ends_alone_and_says_why(make_model, ops, options, message):
    model = make_model(ops=ops)
    scheduler, pool = begin(model)
    prompts = some_prompts()
    wrong = Sequence([1, 2, 3], StopConditions(9), **options)
    requests = [scheduler.add(Sequence(prompt, StopConditions(9))) for prompt in prompts[:2]]
    failing = scheduler.add(wrong)
    requests += [scheduler.add(Sequence(prompt, StopConditions(9))) for prompt in prompts[2:]]
    ended = [request for result in run(scheduler, pool) for request in result.ended]
    assert Counter(ended) == Counter([*requests, failing])
    assert message in str(failing.error)
    assert failing.result().finish_reason is None
    check(model, requests)


@each_ops
def test_numbers_that_are_none_stay_with_the_one_that_has_them(make_model, ops):
    """Token 60 is NaN to the model; its blocks go to others afterwards."""
    model = make_model(ops=ops)
    model.model.embed_tokens.weight[60] = torch.nan
    scheduler, pool = begin(model, num_blocks=14)
    for memory in (pool.keys, pool.values):
        memory.fill_(torch.nan)  # what lay there before is not looked at, either
    failing = [scheduler.add(Sequence([1] * n + [60], StopConditions(9))) for n in (1, 4, 11)]
    requests = [scheduler.add(Sequence(p, StopConditions(9))) for p in some_prompts()]
    run(scheduler, pool)
    for request in failing:
        assert "no token can be chosen" in str(request.error)
    check(model, requests)


@pytest.mark.parametrize("broken", [RuntimeError, KeyboardInterrupt])
def test_after_a_forward_pass_that_broke_off_all_go_on_with_the_tokens_they_have(model, broken):
    passes = iter(range(99))

    def forward(*args):
        logits = packed_forward(*args)
        if next(passes) in (2, 4):
            raise broken("the power went")
        return logits

    scheduler, pool = begin(model, forward=forward)
    requests = [scheduler.add(Sequence(p, StopConditions(9))) for p in some_prompts()]
    for num_steps in (2, 1):
        for _ in range(num_steps):
            step(scheduler, pool)
        before = [list(request.sequence.token_ids) for request in requests]
        with pytest.raises(broken, match="the power went"):
            scheduler.step()
        assert (scheduler.running, len(scheduler.waiting)) == ((), len(requests))
        assert [request.sequence.token_ids for request in requests] == before
    run(scheduler, pool)
    check(model, requests)


def test_tokens_of_a_step_that_was_interrupted_are_told_by_the_next(model):
    interrupts = iter((False, False, True))

    def interrupted(logits: Tensor) -> Tensor:
        if next(interrupts, False):
            raise KeyboardInterrupt
        return logits.argmax(-1)

    scheduler, pool = begin(model)
    samplers = ({}, {"sampler": interrupted}, {})
    requests = [
        scheduler.add(Sequence(prompt, StopConditions(4), **sampler))
        for prompt, sampler in zip(some_prompts((5, 6, 7)), samplers, strict=True)
    ]
    told = step(scheduler, pool).tokens + step(scheduler, pool).tokens
    with pytest.raises(KeyboardInterrupt):
        scheduler.step()
    for result in run(scheduler, pool):
        told += result.tokens
    for request in requests:
        assert [token for owner, token in told if owner is request] == request.sequence.token_ids
    check(model, requests)


@each_ops
@pytest.mark.parametrize("length", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1])
def test_prompts_that_end_about_the_end_of_a_block(make_model, ops, length):
    model = make_model(ops=ops)
    scheduler, pool = begin(model)
    requests = [
        scheduler.add(Sequence(prompt, StopConditions(most)))
        for prompt, most in zip(some_prompts((length,) * 3), (1, 2, 9), strict=True)
    ]
    run(scheduler, pool)
    check(model, requests)


@each_ops
def test_one_token_beside_nine_hundred_and_a_context_filled_to_its_last_position(config, ops):
    model = QwenForCausalLM(dataclasses.replace(config, max_position_embeddings=912), ops)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        parameter.normal_(1.0 if "norm" in name else 0.0, 0.2, generator=generator)
    scheduler, pool = begin(model, num_blocks=240, max_step_tokens=200)
    requests = [
        scheduler.add(Sequence(prompt, StopConditions(12))) for prompt in some_prompts((1, 900, 2))
    ]
    run(scheduler, pool)
    check(model, requests)


@each_ops
def test_a_prefix_is_shared_up_to_where_prompts_part_inside_a_block(make_model, ops):
    model = make_model(ops=ops)
    stem = some_prompts((14,))[0]
    prompts = [[*stem, 1, 2, 3], [*stem, 4, 5, 6], [*stem[:6], 7, 8, 9, 10], [11, *stem]]
    for at_once in (True, False):
        scheduler, pool = begin(model)
        requests = []
        for prompt in prompts:
            requests.append(scheduler.add(Sequence(prompt, StopConditions(9))))
            while not at_once and scheduler.has_work:
                step(scheduler, pool)
        run(scheduler, pool)
        assert [request.num_reused_tokens for request in requests] == [0, 12, 4, 0]
        check(model, requests)


def test_of_a_prompt_that_is_known_whole_the_last_token_is_fed(model):
    """In whole blocks: the last one is copied, and where it is under way, computed again."""
    prompt = some_prompts((8,))[0]
    scheduler, pool = begin(model)
    together = [scheduler.add(Sequence(prompt, StopConditions(9))) for _ in range(3)]
    step(scheduler, pool)
    later = [scheduler.add(Sequence(prompt, StopConditions(9)))]
    run(scheduler, pool)
    later += [scheduler.add(Sequence(prompt, StopConditions(9)))]
    fed = [result.fed for result in run(scheduler, pool)]
    assert fed[0] == [(later[1], 7, 1)]
    assert [request.num_reused_tokens for request in [*together, *later]] == [0, 4, 4, 7, 7]
    check(model, [*together, *later])
    assert later[0].result().timings.num_prompt_tokens == 1


def test_a_conversation_finds_its_own_answers_again(model):
    scheduler, pool = begin(model)
    first = scheduler.add(Sequence(some_prompts((10,))[0], StopConditions(9)))
    run(scheduler, pool)
    second = scheduler.add(Sequence([*first.token_ids(0, 19), 5, 6], StopConditions(9)))
    run(scheduler, pool)
    assert second.num_reused_tokens == 16  # of 18 that were fed, those in whole blocks
    check(model, [first, second])


def test_the_pool_is_of_one_size_and_what_was_found_longest_ago_goes_first(model):
    scheduler, pool = begin(model, num_blocks=12)
    addresses = pool.keys.data_ptr(), pool.values.data_ptr()
    prompts = some_prompts((13, 13, 13, 13))
    for prompt in prompts:
        scheduler.add(Sequence(prompt, StopConditions(2)))
        run(scheduler, pool)
    again = [scheduler.add(Sequence(prompts[i], StopConditions(2))) for i in (3, 2, 0)]
    results = run(scheduler, pool)
    assert [request.num_reused_tokens for request in again] == [12, 12, 4]  # its last went
    assert (pool.keys.data_ptr(), pool.values.data_ptr()) == addresses
    assert not any(result.preempted for result in results)


def test_time_counts_from_the_first_token_that_is_fed(model, clock):
    def forward(*args):
        clock.move(2.0)
        return packed_forward(*args)

    scheduler, pool = begin(
        model, max_running=1, forward=forward, stopwatch=Stopwatch(torch.device("cpu"), clock)
    )
    one, other = (
        scheduler.add(Sequence(prompt, StopConditions(9, max_time_s=5.0)))
        for prompt in some_prompts((30, 4))
    )
    run(scheduler, pool)
    for request, times in ((one, (4.0, 2.0)), (other, (2.0, 2.0, 2.0))):
        result = request.result()
        assert (result.finish_reason, result.timings.token_s) == ("time", times)
        assert result.timings.prefill_s == times[0]


def test_a_step_tells_the_new_tokens_and_who_has_ended(model):
    scheduler, pool = begin(model)
    requests = [scheduler.add(Sequence(p, StopConditions(3))) for p in some_prompts((30, 4))]
    told: dict[Request, list[int]] = {request: [] for request in requests}
    for result in run(scheduler, pool):
        for request, token_id in result.tokens:
            told[request].append(token_id)
            assert request.sequence.token_ids[: len(told[request])] == told[request]
        for request in result.ended:
            assert told[request] == request.result().token_ids
    assert all(len(token_ids) == 3 for token_ids in told.values())
