"""Many texts together: each is what it is alone, and none knows of the others."""

import pickle
from typing import Any

import pytest

import augur
from augur import batch_limits
from augur.batch_limits import BatchLimits
from augur.text_batch import AskedText, TextBatch
from augur_gen import BLOCK_SIZE, BlockPool

WORDS = "Why is the sky blue? Because the air scatters blue light the most."
PROMPTS = [WORDS[:length] for length in (1, 40, 3, 66, 17, 25, 9, 52, 33, 2, 60, 13)]
GREEDY: augur.Options = {"max_new_tokens": 20}
DRAWN: augur.Options = {"max_new_tokens": 20, "temperature": 1.0, "seed": 5}


def together(
    llm: augur.LLM, prompts: list[str], limits: BatchLimits, **options: Any
) -> tuple[TextBatch, dict[int, augur.TextResult]]:
    asked = llm.ask(prompts, llm.options(**options))
    batch = TextBatch(llm, asked, limits, prefill_chunk=1024)
    return batch, {place: ended for step in batch for place, ended in step.ended.items()}


def bytes_of(llm: augur.LLM, num_blocks: int) -> int:
    return num_blocks * BlockPool.block_bytes(llm.model.config, llm.model.dtype)


@pytest.mark.parametrize(
    "options", [pytest.param(GREEDY, marks=pytest.mark.gate), DRAWN], ids=["greedy", "drawn"]
)
@pytest.mark.parametrize(
    ("max_running", "batch_tokens", "num_blocks"),
    [
        (3, 5, None),
        (12, 64, 12),
        pytest.param(16, None, None, marks=pytest.mark.gate),
        pytest.param(2, 2, 9, marks=pytest.mark.gate),
        pytest.param(1, None, None, marks=pytest.mark.gate),
    ],
)
def test_each_text_is_that_of_its_prompt_alone(
    llm: augur.LLM,
    options: augur.Options,
    max_running: int,
    batch_tokens: int | None,
    num_blocks: int | None,
):
    alone = [
        llm.chat(prompt, **options | ({"seed": 5 + place} if "seed" in options else {}))
        for place, prompt in enumerate(PROMPTS)
    ]
    found = llm.batch(
        PROMPTS,
        max_running=max_running,
        batch_tokens=batch_tokens,
        cache_memory=None if num_blocks is None else bytes_of(llm, num_blocks),
        **options,
    )
    assert [one.token_ids for one in found] == [one.token_ids for one in alone]
    assert [one.text for one in found] == [one.text for one in alone]
    assert [one.finish_reason for one in found] == [one.finish_reason for one in alone]


def test_a_small_cache_makes_texts_wait_and_fails_none(llm: augur.LLM):
    limits = BatchLimits(12, 64, bytes_of(llm, 12))
    batch, found = together(llm, PROMPTS, limits, **GREEDY)
    assert sorted(found) == list(range(12))
    assert batch.figures.num_blocks == 12
    assert batch.figures.num_preemptions > 0
    assert (batch.figures.num_running, batch.figures.num_waiting) == (0, 0)
    assert batch.figures.num_blocks_in_use == 0


def test_one_at_a_time_has_the_bits_of_one_alone(llm: augur.LLM):
    asked: augur.Options = {"max_new_tokens": 9, "logprobs": 2}
    (_, found) = llm.batch([WORDS, WORDS], max_running=1, **asked)
    alone = llm.chat(WORDS, **asked)
    assert found.generation.logprobs == alone.generation.logprobs
    assert found.generation.num_reused_tokens == 0


def test_prompts_that_begin_alike_are_computed_once_and_it_is_told(llm: augur.LLM):
    batch, found = together(llm, [WORDS] * 4, BatchLimits(), **DRAWN)
    length = len(llm.encode(WORDS))
    whole = length // BLOCK_SIZE * BLOCK_SIZE
    assert whole >= BLOCK_SIZE
    reused = [found[place].generation.num_reused_tokens for place in range(4)]
    assert reused == [0, *[min(whole, length - 1)] * 3]
    assert batch.figures.num_reused_tokens == sum(reused)
    assert batch.figures.num_prompt_tokens == 4 * length
    assert batch.figures.num_new_tokens == sum(len(one.token_ids) for one in found.values())
    assert len({one.text for one in found.values()}) == 4


def test_pieces_are_told_as_they_are_made_and_join_to_the_texts(llm: augur.LLM):
    batch = TextBatch(llm, llm.ask(PROMPTS, llm.options(**GREEDY)), BatchLimits(), prefill_chunk=9)
    pieces: dict[int, list[str]] = {place: [] for place in range(len(PROMPTS))}
    texts = {}
    for step in batch:
        for place, piece in step.pieces.items():
            assert piece
            pieces[place].append(piece)
        texts |= {place: ended.text for place, ended in step.ended.items()}
    assert {place: "".join(some) for place, some in pieces.items()} == texts
    assert max(map(len, pieces.values())) > 5


def test_a_stop_string_ends_its_own_text(llm: augur.LLM):
    plain = llm.chat(WORDS, max_new_tokens=30).text
    stop = plain[6:9]
    asked: augur.Options = {"max_new_tokens": 30, "stop_strings": stop}
    found = llm.batch([WORDS, *PROMPTS], **asked)
    assert found[0].text == plain[: plain.index(stop)]
    assert (found[0].stop_string, found[0].finish_reason) == (stop, "stop")
    for prompt, one in zip(PROMPTS, found[1:], strict=True):
        assert one.text == llm.chat(prompt, **asked).text


class BreaksAt:
    """A constraint that allows everything, and breaks when it is asked for the last time."""

    def __init__(self, left: float) -> None:
        self.left = left

    def mask(self, logits):
        self.left -= 1
        if self.left < 0:
            raise LookupError("no such rule")
        return logits

    def accept(self, token_id):
        pass


def test_one_that_fails_midway_takes_no_other_with_it(llm: augur.LLM):
    lives = iter([float("inf"), 3, float("inf"), 0])
    with pytest.raises(augur.UnansweredError) as failed:
        llm.batch(PROMPTS[:4], constraint=lambda: BreaksAt(next(lives)), **GREEDY)
    error = failed.value
    assert str(error) == (
        "2 of 4 prompts could not be answered, the first of them prompt 1: no such rule"
    )
    assert sorted(error.errors) == [1, 3]
    assert isinstance(error.errors[1], LookupError)
    assert [answer is None for answer in error.answers] == [False, True, False, True]
    for place in (0, 2):
        alone = llm.chat(PROMPTS[place], **GREEDY)
        assert error.answers[place].token_ids == alone.token_ids
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_prompt_longer_than_the_model_ends_with_its_own_error_and_needs_no_room(llm: augur.LLM):
    options = llm.options(**GREEDY)
    asked = [AskedText(f"{n}", [1] * n, options) for n in (5, 10_000, 0, 7)]
    batch = TextBatch(llm, asked, BatchLimits(), prefill_chunk=1024)
    ended = {place: one for step in batch for place, one in step.ended.items()}
    assert "the model has 512 positions" in str(ended[1])
    assert "the prompt has no tokens" in str(ended[2])
    for place in (0, 3):
        alone = llm.generate(asked[place].token_ids, options).run()
        assert ended[place].token_ids == alone.token_ids
    assert batch.figures.num_blocks == 3 + 3 + 3


def test_what_was_begun_can_be_had_at_any_step(llm: augur.LLM):
    whole = llm.batch(PROMPTS[:4], **GREEDY)
    for limits in (BatchLimits(2), BatchLimits(1)):
        batch = TextBatch(
            llm, llm.ask(PROMPTS[:4], llm.options(**GREEDY)), limits, prefill_chunk=1024
        )
        for _ in range(4):
            next(batch)
        unfinished = batch.unfinished()
        assert sorted(unfinished) in ([0], [0, 1], [0, 1, 2, 3])
        for place, result in unfinished.items():
            assert result.finish_reason is None
            length = len(result.token_ids)
            assert result.token_ids == whole[place].token_ids[:length]
            assert length < 20
        assert unfinished[0].token_ids


WRONG_LIMITS = {
    "none": ({"max_running": 0}, "max_running is 0, expected an integer from 1 up"),
    "a bool": ({"max_running": True}, "max_running is True, expected an integer"),
    "no integer": ({"batch_tokens": 2.5}, "batch_tokens is 2.5, expected an integer"),
    "no memory": ({"cache_memory": 0}, "cache_memory is 0, expected an integer from 1 up"),
    "too few": ({"batch_tokens": 15}, "batch_tokens is 15, fewer than max_running, which is 16"),
    "alone": (
        {"cache_memory": 10**9, "max_running": 1},
        "cache_memory is about texts that are answered together, and max_running 1 answers each",
    ),
    "too small": (
        {"cache_memory": 5000},
        r"prompt 3: prompt and answer may take \d+ tokens, whose keys and values need \d+ bytes; "
        "cache_memory is 5000",
    ),
}


@pytest.mark.parametrize("case", WRONG_LIMITS)
def test_a_wrong_limit_is_named_before_anything_is_computed(
    llm: augur.LLM, case: str, monkeypatch: pytest.MonkeyPatch
):
    given, said = WRONG_LIMITS[case]
    monkeypatch.setattr(llm.model, "forward", None)  # to call it would be a TypeError
    with pytest.raises(augur.OptionError, match=said) as refused:
        llm.batch(PROMPTS, **given, **GREEDY)
    assert next(iter(given)).upper() in refused.value.spelled(str.upper)


def test_a_cache_takes_what_those_that_run_can_need_and_half_of_what_is_free_at_most(
    llm: augur.LLM, monkeypatch: pytest.MonkeyPatch
):
    needed = [(100, 2, "a"), (16, 5, "b"), (33, 1, "c")]  # 7 blocks each, 1 and 3, and one to spare

    def num_blocks(max_running: int) -> int:
        return BatchLimits(max_running).make_pool(llm.model, needed).num_blocks

    assert [num_blocks(many) for many in (2, 3, 5, 100)] == [16, 20, 24, 30]
    free = bytes_of(llm, 2 * 15)
    monkeypatch.setattr(batch_limits, "free_memory_bytes", lambda _: free)
    assert [num_blocks(many) for many in (2, 3, 100)] == [15, 15, 15]
    free = bytes_of(llm, 2 * 3)
    assert num_blocks(3) == 7, "the largest always has room, or it is refused"
