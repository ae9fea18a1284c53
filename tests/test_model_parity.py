"""The whole model equals transformers' eager Qwen2 to the last bit, however it is fed."""

import pytest
import torch

from candidate import candidate_logits
from comparison import DTYPES, check_same_bits
from referee import referee_logits
from tiny_pairs import TINY_CONFIGS, random_token_ids, tiny_pair

# Waking a second thread takes longer than these models do.

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
each_config = pytest.mark.parametrize("name", TINY_CONFIGS)

NINE_DECODE_STEPS = (1,) * 9


@each_dtype
@each_config
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (5, 1), (2, 2), (5, 19), (1, 99), (2, 257)])
def test_prefill_equals_transformers(
    batch: int, length: int, name: str, dtype: torch.dtype
) -> None:
    pair = tiny_pair(name, dtype)
    token_ids = random_token_ids(batch, length)
    check_same_bits(
        candidate_logits(pair.candidate, token_ids), referee_logits(pair.referee, token_ids)
    )


@each_dtype
@each_config
@pytest.mark.parametrize(("batch", "prompt_length"), [(1, 1), (2, 19), (5, 99)])
def test_nine_cached_decode_steps_equal_transformers(
    batch: int, prompt_length: int, name: str, dtype: torch.dtype
) -> None:
    pair = tiny_pair(name, dtype)
    sizes = (prompt_length, *NINE_DECODE_STEPS)
    token_ids = random_token_ids(batch, sum(sizes))
    check_same_bits(
        candidate_logits(pair.candidate, token_ids, sizes),
        referee_logits(pair.referee, token_ids, sizes),
    )


@each_dtype
@each_config
@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        (5, (7, 7, 5)),
        (1, (64, 64, 1)),
        (2, (2, 97, *NINE_DECODE_STEPS)),
        (2, (12, 1, 1, 30, 1, 2)),
    ],
    ids=["chunks", "last chunk of one", "chunks, then decode", "a new turn on a filled cache"],
)
def test_the_same_chunks_through_a_cache_equal_transformers(
    batch: int, sizes: tuple[int, ...], name: str, dtype: torch.dtype
) -> None:
    pair = tiny_pair(name, dtype)
    token_ids = random_token_ids(batch, sum(sizes))
    check_same_bits(
        candidate_logits(pair.candidate, token_ids, sizes),
        referee_logits(pair.referee, token_ids, sizes),
    )


@each_dtype
@each_config
@pytest.mark.parametrize("sizes", [None, (9, 9, 1)], ids=["uncached", "cached"])
def test_last_logits_alone_equal_what_transformers_keeps(
    sizes: tuple[int, ...] | None, name: str, dtype: torch.dtype
) -> None:
    pair = tiny_pair(name, dtype)
    token_ids = random_token_ids(2, 19)
    found = candidate_logits(pair.candidate, token_ids, sizes, logits_to_keep=1)
    assert found.shape == (2, len(sizes or (19,)), 128)
    check_same_bits(found, referee_logits(pair.referee, token_ids, sizes, logits_to_keep=1))


@each_dtype
def test_positions_handed_in_equal_transformers(dtype: torch.dtype) -> None:
    pair = tiny_pair("untied", dtype)
    token_ids = random_token_ids(2, 5)
    positions = torch.tensor([[3, 15, 257, 4095, 32767], [0, 1, 2, 30, 31]])
    with torch.inference_mode():
        found = pair.candidate(token_ids, positions)
        # An all-true padding mask: without one, transformers would take positions that jump for
        # several sequences packed in one row.
        expected = pair.referee(
            token_ids, position_ids=positions, attention_mask=torch.ones_like(token_ids)
        ).logits
    check_same_bits(found, expected)


def test_the_compared_models_have_biases_too_large_to_be_lost_unseen() -> None:
    for layer in tiny_pair("untied", torch.float32).candidate.model.layers:
        attention = layer.self_attn
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            assert projection.bias.abs().max() > 1
        assert attention.o_proj.bias is None
