"""The whole model equals transformers' eager Qwen2 to the last bit, however it is fed."""

import pytest
import torch

from augur_proof import KINDS, Outputs, check_same_bits, random_token_ids, tiny_pair

pytest.importorskip("transformers")

each_dtype = pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.gate)],
    ids=str,
)
each_kind = pytest.mark.parametrize("kind", KINDS)

NINE_DECODE_STEPS = (1,) * 9


@each_dtype
@each_kind
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (5, 1), (2, 2), (5, 19), (1, 99), (2, 257)])
def test_prefill_equals_transformers(
    batch: int, length: int, kind: str, dtype: torch.dtype
) -> None:
    check_same_bits(*tiny_pair(kind, dtype).logits(random_token_ids(batch, length)))


@each_dtype
@each_kind
@pytest.mark.parametrize(("batch", "prompt_length"), [(1, 1), (2, 19), (5, 99)])
def test_nine_cached_decode_steps_equal_transformers(
    batch: int, prompt_length: int, kind: str, dtype: torch.dtype
) -> None:
    sizes = (prompt_length, *NINE_DECODE_STEPS)
    check_same_bits(*tiny_pair(kind, dtype).logits(random_token_ids(batch, sum(sizes)), sizes))


@each_dtype
@each_kind
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
    batch: int, sizes: tuple[int, ...], kind: str, dtype: torch.dtype
) -> None:
    check_same_bits(*tiny_pair(kind, dtype).logits(random_token_ids(batch, sum(sizes)), sizes))


@each_dtype
@each_kind
@pytest.mark.parametrize("sizes", [None, (9, 9, 1)], ids=["uncached", "cached"])
def test_last_logits_alone_equal_what_transformers_keeps(
    sizes: tuple[int, ...] | None, kind: str, dtype: torch.dtype
) -> None:
    logits = tiny_pair(kind, dtype).logits(random_token_ids(2, 19), sizes, logits_to_keep=1)
    assert logits.found.shape == (2, len(sizes or (19,)), 128)
    check_same_bits(*logits)


@each_dtype
def test_positions_handed_in_equal_transformers(dtype: torch.dtype) -> None:
    pair = tiny_pair("untied", dtype)
    token_ids = random_token_ids(2, 5)
    positions = torch.tensor([[3, 15, 257, 4095, 32767], [0, 1, 2, 30, 31]])
    with torch.inference_mode():
        found = pair.candidate.model(token_ids, positions)
        # An all-true padding mask: without one, transformers would take positions that jump for
        # several sequences packed in one row.
        expected = pair.referee.model(
            token_ids, position_ids=positions, attention_mask=torch.ones_like(token_ids)
        ).logits
    check_same_bits(*Outputs(found, expected))


def test_the_compared_models_have_biases_too_large_to_be_lost_unseen() -> None:
    for layer in tiny_pair("untied", torch.float32).candidate.model.model.layers:
        attention = layer.self_attn
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            assert projection.bias.abs().max() > 1
        assert attention.o_proj.bias is None
