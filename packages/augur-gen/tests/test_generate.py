"""`generate` over a random model: cached equals uncached; limits are checked before the start."""

import pytest
import torch

from augur_gen import (
    CacheFullError,
    GenerationError,
    StaticKVCache,
    StopConditions,
    generate,
    prefill,
)
from augur_model import EAGER, SDPA


def greedy_by_hand(model, token_ids: list[int], count: int) -> list[int]:
    """The largest logit after a whole forward pass, again and again."""
    token_ids = list(token_ids)
    for _ in range(count):
        token_ids.append(int(model(torch.tensor([token_ids]))[0, -1].argmax()))
    return token_ids[-count:]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
def test_cached_and_uncached_give_the_same_greedy_tokens(make_model, prompt, ops, seed):
    model = make_model(seed, ops=ops)
    stop = StopConditions(24)
    expected = greedy_by_hand(model, prompt, 24)
    assert len(set(expected)) > 3, "a script of one repeated token would prove little"
    for options in ({}, {"chunk_size": 4}, {"use_cache": False}):
        assert generate(model, prompt, stop, **options).run().token_ids == expected


def test_a_generation_stops_at_an_eos_that_the_model_itself_produces(model, prompt):
    expected = greedy_by_hand(model, prompt, 24)
    eos = expected[5]
    result = generate(model, prompt, StopConditions.of(24, [eos])).run()
    assert result.token_ids == expected[: expected.index(eos) + 1]
    assert result.finish_reason == "eos"


def test_a_second_turn_goes_on_after_what_the_cache_holds(model, prompt):
    cache = StaticKVCache.for_model(model, 64)
    first = generate(model, prompt, StopConditions(4), cache=cache).run().token_ids
    # The last token was chosen, but never fed.
    assert cache.length == len(prompt) + 3
    second = generate(model, [first[-1], 7, 8], StopConditions(8), cache=cache).run().token_ids
    assert second == greedy_by_hand(model, [*prompt, *first, 7, 8], 8)


def test_two_generations_over_one_model_can_take_turns(model, prompt):
    other_prompt = prompt[::-1]
    one = generate(model, prompt, StopConditions(8))
    other = generate(model, other_prompt, StopConditions(8))
    pairs = list(zip(one, other, strict=True))
    assert [pair[0] for pair in pairs] == greedy_by_hand(model, prompt, 8)
    assert [pair[1] for pair in pairs] == greedy_by_hand(model, other_prompt, 8)


def test_prompt_and_new_tokens_may_fill_the_cache_to_its_end(model, prompt):
    cache = StaticKVCache.for_model(model, len(prompt) + 5)
    result = generate(model, prompt, StopConditions(5), cache=cache).run()
    assert result.token_ids == greedy_by_hand(model, prompt, 5)
    assert result.finish_reason == "length"


def test_one_token_more_than_the_cache_has_room_for_is_refused_before_the_start(model, prompt):
    cache = StaticKVCache.for_model(model, len(prompt) + 5)
    with pytest.raises(CacheFullError, match="holds 0 of 24 tokens; 25 more"):
        generate(model, prompt, StopConditions(6), cache=cache)
    assert cache.length == 0
    assert not cache.keys.any()


def test_what_the_cache_holds_already_counts(model, prompt):
    cache = StaticKVCache.for_model(model, len(prompt) + 5)
    prefill(model, torch.tensor([[1, 2]]), cache)
    generate(model, prompt, StopConditions(3), cache=cache)
    with pytest.raises(CacheFullError, match="holds 2 of 24 tokens; 23 more"):
        generate(model, prompt, StopConditions(4), cache=cache)


def test_prompt_and_new_tokens_fit_the_models_positions(model):
    prompt = [1] * 500
    generate(model, prompt, StopConditions(12))
    with pytest.raises(GenerationError, match="come to 513 tokens; the model has 512 positions"):
        generate(model, prompt, StopConditions(13))
    cache = StaticKVCache.for_model(model, 1000)
    prefill(model, torch.tensor([[1]]), cache)
    with pytest.raises(GenerationError, match="come to 513 tokens"):
        generate(model, prompt, StopConditions(12), cache=cache)


@pytest.mark.parametrize("use_cache", [True, False])
def test_no_tokens_are_refused(model, use_cache):
    with pytest.raises(GenerationError, match="prompt has no tokens"):
        generate(model, [], StopConditions(4), use_cache=use_cache)


@pytest.mark.parametrize("token_id", [-1, 61])
def test_a_token_outside_the_vocabulary_is_refused(model, token_id):
    with pytest.raises(GenerationError, match=f"token 2 of the prompt is {token_id}.* 0 to 60"):
        generate(model, [0, 60, token_id], StopConditions(4))


@pytest.mark.parametrize("token_id", [-1, 61, 2.0])
def test_wrong_tokens_before_the_prompt_are_refused(model, token_id):
    with pytest.raises(GenerationError, match=rf"token 1 of the earlier tokens is {token_id}"):
        generate(model, [0], StopConditions(4), earlier_token_ids=[0, token_id])


@pytest.mark.parametrize("prompt", [[0, 1.5], "text", torch.tensor([0.0, 1.0])], ids=repr)
def test_a_prompt_that_is_no_list_of_integers_is_refused(model, prompt):
    with pytest.raises(GenerationError, match=r"of the prompt is .*, expected an integer"):
        generate(model, prompt, StopConditions(4))


@pytest.mark.parametrize("option", ["cache", "chunk_size"])
def test_the_uncached_path_takes_no_cache_and_no_chunks(model, prompt, option):
    value = {"cache": StaticKVCache.for_model(model, 64), "chunk_size": 4}[option]
    with pytest.raises(GenerationError, match="use_cache=False takes neither"):
        generate(model, prompt, StopConditions(4), use_cache=False, **{option: value})


def test_timings_count_the_prompt_and_every_token(model, prompt):
    timings = generate(model, prompt, StopConditions(3)).run().timings
    assert timings.num_prompt_tokens == len(prompt)
    assert len(timings.token_s) == 3
    assert 0 < timings.prefill_s <= timings.ttft_s
