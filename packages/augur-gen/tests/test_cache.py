"""The static cache: memory taken once, written by position, never past its end."""

import pytest
import torch
from torch import Tensor

from augur_gen import CacheFullError, GenerationError, StaticKVCache

CAPACITY = 5
UNTOUCHED = -7.0


@pytest.fixture
def cache(config) -> StaticKVCache:
    """Room for five tokens of two rows, with a mark in every slot."""
    cache = StaticKVCache(config, CAPACITY, batch_size=2, dtype=torch.float32, device="cpu")
    for buffer in (cache.keys, cache.values):
        buffer.fill_(UNTOUCHED)
    return cache


def some_heads(num_tokens: int, seed: int = 0, batch: int = 2) -> Tensor:
    """`[batch, kv_heads, num_tokens, head_dim]`"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 2, num_tokens, 8, generator=generator)


def feed(cache: StaticKVCache, num_tokens: int, seed: int = 0) -> None:
    """What a forward pass does; layer 1 stores other numbers than layer 0."""
    heads = some_heads(num_tokens, seed)
    for layer in range(2):
        cache.update(layer, heads + layer, heads - layer)
    cache.advance(num_tokens)


def test_memory_is_what_the_shape_says_whatever_is_held(cache):
    shape = (2, 2, 2, CAPACITY, 8)
    assert cache.keys.shape == cache.values.shape == shape
    expected = 2 * 4 * torch.Size(shape).numel()
    assert cache.num_bytes == expected
    feed(cache, 3)
    assert cache.num_bytes == expected
    assert (cache.length, cache.capacity) == (3, CAPACITY)


def test_memory_is_taken_once(cache):
    addresses = cache.keys.data_ptr(), cache.values.data_ptr()
    for num_tokens in (1, 3, 1):
        feed(cache, num_tokens)
        assert (cache.keys.data_ptr(), cache.values.data_ptr()) == addresses


def test_update_gives_views_of_all_tokens_so_far(cache):
    feed(cache, 2, seed=1)
    keys, values = cache.update(1, some_heads(1, seed=2), some_heads(1, seed=3))
    assert torch.equal(keys, torch.cat((some_heads(2, seed=1) + 1, some_heads(1, seed=2)), 2))
    assert torch.equal(values, torch.cat((some_heads(2, seed=1) - 1, some_heads(1, seed=3)), 2))
    assert keys.untyped_storage().data_ptr() == cache.keys.untyped_storage().data_ptr()
    assert values.untyped_storage().data_ptr() == cache.values.untyped_storage().data_ptr()


def test_slots_that_were_not_written_stay_untouched(cache):
    feed(cache, 2)
    cache.update(0, some_heads(1), some_heads(1))
    for buffer in (cache.keys, cache.values):
        assert (buffer[0, :, :, 3:] == UNTOUCHED).all()
        assert (buffer[1, :, :, 2:] == UNTOUCHED).all()
        assert not (buffer[:, :, :, :2] == UNTOUCHED).any()


def test_tokens_count_when_every_layer_has_written_them(cache):
    cache.update(0, some_heads(2), some_heads(2))
    assert cache.length == 0
    cache.advance(2)
    assert cache.length == 2


@pytest.mark.parametrize("steps", [[5], [4, 1], [1, 1, 1, 1, 1]], ids=str)
def test_the_last_slot_can_be_used_and_one_more_is_refused_before_anything_is_written(cache, steps):
    for num_tokens in steps:
        feed(cache, num_tokens)
    assert cache.length == CAPACITY
    before = cache.keys.clone(), cache.values.clone()
    with pytest.raises(CacheFullError, match=r"holds 5 of 5 tokens; 1 more .* capacity 6"):
        cache.update(0, some_heads(1), some_heads(1))
    assert torch.equal(cache.keys, before[0])
    assert torch.equal(cache.values, before[1])
    assert cache.length == CAPACITY


def test_tokens_that_fit_only_in_part_are_refused_whole(cache):
    feed(cache, 3)
    before = cache.keys.clone(), cache.values.clone()
    with pytest.raises(CacheFullError, match="holds 3 of 5 tokens; 3 more"):
        cache.update(0, some_heads(3), some_heads(3))
    assert torch.equal(cache.keys, before[0])
    assert torch.equal(cache.values, before[1])


def test_room_can_be_asked_for(cache):
    cache.check_room(CAPACITY)
    with pytest.raises(CacheFullError):
        cache.check_room(CAPACITY + 1)


WRONG_HEADS = {
    "one row": some_heads(1, batch=1),
    "three rows": some_heads(1, batch=3),
    "bfloat16": some_heads(1).bfloat16(),
    "float64": some_heads(1).double(),
    "one head": some_heads(1)[:, :1],
    "head_dim 1": some_heads(1)[..., :1],
}


@pytest.mark.parametrize("wrong", WRONG_HEADS.values(), ids=WRONG_HEADS.keys())
def test_what_would_be_broadcast_or_converted_is_refused(cache, wrong):
    with pytest.raises(GenerationError, match=r"keys is torch\..* the cache takes torch\.float32"):
        cache.update(0, wrong, some_heads(1))
    with pytest.raises(
        GenerationError, match=r"values is torch\..* the cache takes torch\.float32"
    ):
        cache.update(0, some_heads(1), wrong)
    for buffer in (cache.keys, cache.values):
        assert (buffer == UNTOUCHED).all()


def test_values_for_another_number_of_tokens_than_keys_are_refused(cache):
    with pytest.raises(GenerationError, match="values"):
        cache.update(0, some_heads(2), some_heads(1))


def test_after_truncate_new_tokens_overwrite_the_old(cache):
    feed(cache, 4, seed=1)
    addresses = cache.keys.data_ptr(), cache.values.data_ptr()
    cache.truncate(1)
    assert cache.length == 1
    feed(cache, 2, seed=2)
    expected = torch.cat((some_heads(4, seed=1)[:, :, :1], some_heads(2, seed=2)), 2)
    assert torch.equal(cache.keys[0, :, :, :3], expected)
    assert (cache.keys.data_ptr(), cache.values.data_ptr()) == addresses


@pytest.mark.parametrize("length", [-1, 4])
def test_truncate_keeps_no_more_than_there_is(cache, length):
    feed(cache, 3)
    with pytest.raises(GenerationError, match=f"cannot keep {length} tokens .* holds 3"):
        cache.truncate(length)
    assert cache.length == 3


@pytest.mark.parametrize("sizes", [{"capacity": 0}, {"capacity": -1}, {"batch_size": 0}], ids=str)
def test_a_cache_of_no_size_is_refused(config, sizes):
    [(name, size)] = sizes.items()
    with pytest.raises(GenerationError, match=f"{name} is {size}, expected at least 1"):
        StaticKVCache(
            config, **{"capacity": 1, "batch_size": 1} | sizes, dtype=torch.float32, device="cpu"
        )


def test_for_model_takes_shapes_and_dtype_from_the_model(model):
    cache = StaticKVCache.for_model(model.to(torch.bfloat16), 11, batch_size=3)
    assert cache.keys.shape == (2, 3, 2, 11, 8)
    assert (cache.keys.dtype, cache.values.dtype) == (torch.bfloat16, torch.bfloat16)
    assert cache.keys.device == model.device


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_memory_of_a_cache_is_known_before_it_is_taken(config, batch_size, dtype):
    cache = StaticKVCache(config, 11, batch_size=batch_size, dtype=dtype, device="cpu")
    told = StaticKVCache.num_bytes_of(config, 11, batch_size=batch_size, dtype=dtype)
    assert told == cache.num_bytes
