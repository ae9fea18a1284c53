"""Rows of different lengths in one batch: each gets what it gets alone."""

import dataclasses
import random

import pytest
import torch
from torch import Tensor

from augur_gen import CacheFullError, GenerationError, StaticKVCache, decode_step, prefill
from augur_model import EAGER, SDPA, ModelInputError, QwenForCausalLM

LENGTHS = (1, 19, 7, 40, 1, 2)
STEPS = 9
NETWORKS = {
    "qwen2": {},
    "qwen3": {"attention_bias": False, "qk_norm": True, "head_dim": 16},
    "a window in the second layer": {"attention_windows": (None, 5)},
    "windows in both": {"attention_windows": (12, 2)},
    "qwen3 with a window": {"attention_bias": False, "qk_norm": True, "attention_windows": (9, 9)},
}
each_network = pytest.mark.parametrize("network", NETWORKS)
each_ops = pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])


def network_of(config, name: str, ops=EAGER) -> QwenForCausalLM:
    model = QwenForCausalLM(dataclasses.replace(config, **NETWORKS[name]), ops)
    generator = torch.Generator().manual_seed(0)
    for parameter_name, parameter in model.named_parameters():
        parameter.normal_(1.0 if "norm" in parameter_name else 0.0, 0.2, generator=generator)
    return model


def some_rows(vocab_size: int, lengths=LENGTHS) -> list[list[int]]:
    source = random.Random(3)
    return [[source.randrange(vocab_size) for _ in range(length)] for length in lengths]


def padded(rows: list[list[int]], pad: int = 60) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [pad] * (longest - len(row)) for row in rows])


def lone_logits(model: QwenForCausalLM, row: list[int]) -> Tensor:
    """`[vocab_size]`: what follows the row, by a plain forward pass without a cache."""
    return model(torch.tensor([row]))[0, -1]


def check(model: QwenForCausalLM, rows: list[list[int]], logits: Tensor) -> None:
    assert logits.isfinite().all()
    for row, found in zip(rows, logits, strict=True):
        expected = lone_logits(model, row)
        # The matrix library sees other shapes; a masked place adds a zero to a sum.
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
        assert found.argmax() == expected.argmax()


@each_ops
@each_network
@pytest.mark.parametrize(
    "chunk_size", [3, *(pytest.param(one, marks=pytest.mark.gate) for one in (None, 16))]
)
def test_a_right_padded_batch_prefills_and_decodes_as_its_rows_do(config, network, ops, chunk_size):
    model = network_of(config, network, ops)
    rows = some_rows(config.vocab_size)
    cache = StaticKVCache.for_model(model, max(LENGTHS) + STEPS, batch_size=len(rows))
    logits = prefill(model, padded(rows), cache, num_tokens=LENGTHS, chunk_size=chunk_size)
    assert cache.lengths == LENGTHS
    check(model, rows, logits)
    for step in range(STEPS):
        for row, token_id in zip(rows, logits.argmax(-1).tolist(), strict=True):
            row.append(token_id)
        logits = decode_step(model, torch.tensor([row[-1:] for row in rows]), cache)
        check(model, rows, logits)
        assert cache.lengths == tuple(length + step + 1 for length in LENGTHS)


@each_ops
@each_network
def test_rows_go_on_with_as_many_tokens_as_each_has(config, network, ops):
    """Some a token, some many, some none: what a scheduler feeds in one pass."""
    model = network_of(config, network, ops)
    rows = some_rows(config.vocab_size)
    cache = StaticKVCache.for_model(model, 60, batch_size=len(rows))
    fed = [0] * len(rows)
    for counts in [(1, 5, 0, 20, 1, 2), (0, 1, 7, 1, 0, 0), (0, 13, 0, 19, 0, 0)]:
        news = [row[at : at + count] for row, at, count in zip(rows, fed, counts, strict=True)]
        last = torch.tensor(counts)[:, None].clamp(min=1) - 1
        with torch.inference_mode():
            logits = model(padded(news), cache=cache, num_tokens=counts, logits_to_keep=last)[:, 0]
        fed = [at + count for at, count in zip(fed, counts, strict=True)]
        assert cache.lengths == tuple(fed)
        assert logits.isfinite().all()
        brought = [index for index, count in enumerate(counts) if count]
        check(model, [rows[index][: fed[index]] for index in brought], logits[brought])
    assert tuple(fed) == LENGTHS


@each_ops
@each_network
def test_a_left_padded_batch_with_its_mask_and_positions_does_so_too(config, network, ops):
    model = network_of(config, network, ops)
    rows = some_rows(config.vocab_size)
    longest = max(LENGTHS)
    token_ids = torch.tensor([[60] * (longest - len(row)) + row for row in rows])
    positions = torch.arange(longest) - (longest - torch.tensor(LENGTHS))[:, None]
    real = positions >= 0
    mask = torch.ones(longest, longest, dtype=torch.bool).tril() & real[:, None, None, :]
    # A padded token looks at itself, so that it looks at something.
    mask = mask | torch.eye(longest, dtype=torch.bool)
    cache = StaticKVCache.for_model(model, longest + 1, batch_size=len(rows))
    logits = model(token_ids, positions.clamp(min=0), mask=mask, cache=cache, logits_to_keep=1)
    check(model, rows, logits[:, -1])
    rows = [[*row, 17] for row in rows]
    see = torch.cat((real, torch.ones(len(rows), 1, dtype=torch.bool)), 1)[:, None, None]
    next_ids = torch.full((len(rows), 1), 17)
    logits = model(next_ids, positions[:, -1:] + 1, mask=see, cache=cache)
    check(model, rows, logits[:, -1])


def test_rows_of_one_length_compute_the_bits_they_did_without_numbers_of_tokens(model, config):
    token_ids = torch.tensor(some_rows(config.vocab_size, (19, 19, 19)))
    plain, counted = (StaticKVCache.for_model(model, 24, batch_size=3) for _ in range(2))
    expected = prefill(model, token_ids, plain)
    assert torch.equal(prefill(model, token_ids, counted, num_tokens=[19, 19, 19]), expected)
    step = decode_step(model, token_ids[:, :1], plain)
    assert torch.equal(decode_step(model, token_ids[:, :1], counted), step)
    assert torch.equal(counted.keys, plain.keys)


def test_only_the_places_of_real_tokens_are_written(model, config):
    rows = some_rows(config.vocab_size, (2, 5, 1))
    cache = StaticKVCache.for_model(model, 8, batch_size=3)
    for memory in (cache.keys, cache.values):
        memory.fill_(-7.0)
    prefill(model, padded(rows), cache, num_tokens=[2, 5, 1])
    model(torch.tensor([[1, 2, 3]] * 3), cache=cache, num_tokens=[3, 0, 1])
    assert cache.lengths == (5, 5, 2)
    for memory in (cache.keys, cache.values):
        for row, length in enumerate(cache.lengths):
            assert (memory[:, row, :, length:] == -7.0).all()
            assert not (memory[:, row, :, :length] == -7.0).any()


def test_padding_needs_no_room(model, config):
    """Row 0 is full but for one place, while the others bring more than that."""
    rows = some_rows(config.vocab_size, (9, 3))
    cache = StaticKVCache.for_model(model, 10, batch_size=2)
    prefill(model, padded(rows), cache, num_tokens=[9, 3])
    rows[0].append(4)
    rows[1].extend([1, 2, 3, 4])
    token_ids = torch.tensor([[4, 60, 60, 60], [1, 2, 3, 4]])
    check(model, rows, model(token_ids, cache=cache, num_tokens=[1, 4], logits_to_keep=1)[:, 0])
    before = cache.keys.clone()
    with pytest.raises(CacheFullError, match="row 0 of the cache holds 10 of 10 tokens; 1 more"):
        model(token_ids, cache=cache, num_tokens=[1, 1])
    assert torch.equal(cache.keys, before)


@pytest.mark.parametrize("place", range(3))
def test_a_comparison_with_one_place_off_fails(model, config, place):
    """The twins: a row counted a token short, one too many, and a row of its neighbour."""
    rows = some_rows(config.vocab_size, (5, 19))
    cache = StaticKVCache.for_model(model, 30, batch_size=2)
    prefill(model, padded(rows), cache, num_tokens=[[4, 19], [6, 19], [5, 19]][place])
    if place == 2:
        cache.keys[:] = cache.keys.flip(1)
    logits = decode_step(model, torch.tensor([[1], [2]]), cache)
    with pytest.raises(AssertionError, match="not close"):
        check(model, [[*rows[0], 1], [*rows[1], 2]], logits)


def test_the_mask_of_a_pass_is_made_once_for_all_layers_of_a_window(config):
    masks: list[Tensor] = []

    def recorded(query, key, value, mask, scale):
        masks.append(mask)
        return EAGER.attention(query, key, value, mask, scale)

    config = dataclasses.replace(config, num_hidden_layers=4, attention_windows=(None, 3, None, 3))
    model = QwenForCausalLM(config, dataclasses.replace(EAGER, attention=recorded))
    for parameter in model.parameters():
        parameter.normal_(0, 0.2)
    cache = StaticKVCache.for_model(model, 20, batch_size=2)
    prefill(model, torch.ones(2, 9, dtype=torch.int64), cache, num_tokens=[9, 4])
    masks.clear()
    decode_step(model, torch.tensor([[1], [2]]), cache)
    full, windowed = masks[:2]
    assert masks[2] is full
    assert masks[3] is windowed
    assert full[:, 0, 0].sum(-1).tolist() == [10, 5]
    assert windowed[:, 0, 0].sum(-1).tolist() == [3, 3]


def test_an_explicit_mask_of_differing_rows_is_the_callers_and_windows_still_hold(config):
    model = network_of(config, "a window in the second layer")
    rows = some_rows(config.vocab_size, (2, 9))
    by_default, by_hand = (StaticKVCache.for_model(model, 12, batch_size=2) for _ in range(2))
    for cache in (by_default, by_hand):
        prefill(model, padded(rows), cache, num_tokens=[2, 9])
    token_ids = torch.tensor([[1], [2]])
    see = torch.arange(10) <= torch.tensor([[2], [9]])
    found = model(token_ids, cache=by_hand, mask=see[:, None, None])
    assert torch.equal(found, model(token_ids, cache=by_default))
    with pytest.raises(ModelInputError, match=r"\[2, 4, 1, 11\] .*cached \+ length"):
        model(token_ids, cache=by_hand, mask=see[:, None, None])


@each_network
def test_rows_that_are_kept_go_on_as_if_the_others_had_never_been_there(config, network):
    model = network_of(config, network)
    rows = some_rows(config.vocab_size)
    cache = StaticKVCache.for_model(model, 60, batch_size=len(rows))
    prefill(model, padded(rows), cache, num_tokens=LENGTHS)
    num_bytes, address = cache.num_bytes, cache.keys.data_ptr()
    for kept in ([1, 2, 4], [0, 2], [1]):
        cache.keep_rows(kept)
        rows = [[*rows[index], 11] for index in kept]
        assert cache.lengths == tuple(len(row) - 1 for row in rows)
        logits = decode_step(model, torch.full((len(rows), 1), 11), cache)
        check(model, rows, logits)
    assert (cache.num_bytes, cache.keys.data_ptr()) == (num_bytes, address)


@pytest.mark.parametrize("rows", [[], [0, 0], [1, 0], [2], [-1]], ids=str)
def test_rows_that_are_not_there_cannot_be_kept(model, rows):
    cache = StaticKVCache.for_model(model, 4, batch_size=2)
    with pytest.raises(GenerationError, match=r"cannot keep rows .* some of 0 to 1, ascending"):
        cache.keep_rows(rows)


def test_each_row_can_be_cut_to_its_own_length(model, config):
    rows = some_rows(config.vocab_size, (4, 9))
    cache = StaticKVCache.for_model(model, 12, batch_size=2)
    prefill(model, padded(rows), cache, num_tokens=[4, 9])
    before = cache.keys.clone()
    with pytest.raises(GenerationError, match="cannot keep 10 tokens of a cache that holds 9"):
        cache.truncate([3, 10])
    assert torch.equal(cache.keys, before)
    cache.truncate([3, 5])
    assert cache.lengths == (3, 5)
    logits = decode_step(model, torch.tensor([[1], [2]]), cache)
    check(model, [[*rows[0][:3], 1], [*rows[1][:5], 2]], logits)


@each_ops
def test_a_nan_that_was_dropped_does_not_come_back_through_a_mask(config, ops):
    """A row that overflowed makes room for another, beside a longer one."""
    model = network_of(config, "qwen2", ops)
    rows = some_rows(config.vocab_size, (9, 9))
    cache = StaticKVCache.for_model(model, 12, batch_size=2)
    prefill(model, padded(rows), cache)
    cache.keys[:, 0, :, :9] = torch.nan
    cache.values[:, 0, :, :9] = torch.nan
    cache.truncate([0, 9])
    token_ids = torch.tensor([[5, 6], [7, 60]])
    logits = model(token_ids, cache=cache, num_tokens=[2, 1], logits_to_keep=1)[:, 0]
    check(model, [[5, 6], [*rows[1], 7]], logits)


def test_after_a_pass_that_broke_off_the_rows_are_as_they_were(model, config):
    rows = some_rows(config.vocab_size, (4, 9))
    cache = StaticKVCache.for_model(model, 20, batch_size=2)
    prefill(model, padded(rows), cache, num_tokens=[4, 9])

    def break_off(*_):
        raise KeyboardInterrupt

    handle = model.model.layers[1].register_forward_pre_hook(break_off)
    with pytest.raises(KeyboardInterrupt):
        model(torch.tensor([[1, 2, 3], [4, 60, 60]]), cache=cache, num_tokens=[3, 1])
    handle.remove()
    assert cache.lengths == (4, 9)
    logits = decode_step(model, torch.tensor([[1], [2]]), cache)
    check(model, [[*rows[0], 1], [*rows[1], 2]], logits)


@pytest.mark.parametrize("num_tokens", [[2, 0], [0, 3]], ids=str)
def test_a_prefill_needs_a_token_in_each_row(model, num_tokens):
    cache = StaticKVCache.for_model(model, 4, batch_size=2)
    with pytest.raises(GenerationError, match="give each row at least one token"):
        prefill(model, torch.ones(2, 3, dtype=torch.int64), cache, num_tokens=num_tokens)


def test_as_many_numbers_as_rows_are_needed(model):
    cache = StaticKVCache.for_model(model, 4, batch_size=2)
    for act in (cache.check_room, cache.begin, cache.advance, cache.truncate):
        with pytest.raises(ModelInputError, match="3 numbers of tokens, and the cache has 2 rows"):
            act([1, 1, 1])
