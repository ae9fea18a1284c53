"""Fused attention, a cache and chunks change how sums are ordered, and nothing else.

What they are held to is the eager model without a cache, which equals transformers bit for bit.
"""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from augur_gen import CachedSteps, StaticKVCache, Steps, UncachedSteps
from augur_model import EAGER, SDPA, Ops, QwenForCausalLM
from augur_model.ops import eager_attention
from augur_proof import (
    KINDS,
    WHOLE_MODEL,
    Candidate,
    ComparisonError,
    NewSteps,
    check_close,
    random_token_ids,
    tiny_pair,
)

pytest.importorskip("transformers")

each_dtype = pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.gate)],
    ids=str,
)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_path = pytest.mark.parametrize(
    ("ops", "sizes"),
    [
        (SDPA, None),
        (EAGER, (30, *(1,) * 9)),
        (SDPA, (30, *(1,) * 9)),
        (EAGER, (7, 19, 13)),
        (SDPA, (7, 19, 13)),
    ],
    ids=["sdpa", "cached", "sdpa, cached", "chunks", "sdpa, chunks"],
)


@each_dtype
@each_kind
@each_path
def test_logits_stay_within_tolerance_and_float32_prefers_the_same_tokens(
    ops: Ops, sizes: tuple[int, ...] | None, kind: str, dtype: torch.dtype
) -> None:
    reference = tiny_pair(kind, dtype).candidate
    token_ids = random_token_ids(2, 39)
    found = reference.with_ops(ops).logits(token_ids, sizes)
    expected = reference.logits(token_ids)
    check_close(found, expected, WHOLE_MODEL[dtype])
    if dtype == torch.float32:
        assert torch.equal(found.argmax(-1), expected.argmax(-1))


def uncached(model: QwenForCausalLM, capacity: int) -> Steps:  # noqa: ARG001
    return UncachedSteps(model)


def in_chunks(chunk_size: int | None, model: QwenForCausalLM, capacity: int) -> Steps:
    return CachedSteps(model, StaticKVCache.for_model(model, capacity), chunk_size=chunk_size)


@pytest.mark.parametrize(
    "new_steps",
    [uncached, *(partial(in_chunks, size) for size in (None, 1, 5))],
    ids=["uncached", "cached", "token by token", "chunks of 5"],
)
@pytest.mark.parametrize("kind", ["untied", pytest.param("tied", marks=pytest.mark.gate)])
@pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
def test_greedy_tokens_in_float32_are_those_of_the_uncached_reference(
    ops: Ops, kind: str, new_steps: NewSteps
) -> None:
    reference = replace(tiny_pair(kind, torch.float32).candidate, new_steps=uncached)
    candidate = replace(reference.with_ops(ops), new_steps=new_steps)
    for prompt in random_token_ids(3, 19).tolist():
        expected = reference.greedy(prompt, 24).token_ids
        assert len(set(expected)) > 2
        assert candidate.greedy(prompt, 24).token_ids == expected


def check_same_up_to_noise(found: Tensor, expected: Tensor, oracle: Tensor) -> None:
    """Raise `ComparisonError` where `found` prefers another token for more than noise.

    The noise is the largest error of `expected` itself against `oracle`, the same computed in
    float32. It may lift one token and lower the other, so a gap of twice the noise can close.

    Args:
        found: logits `[batch, length, vocab_size]`.
        expected: the same along the plain path, in the same dtype.
        oracle: as `expected`, in float32.
    """
    noise = (expected.float() - oracle).abs().max()
    best, second = oracle.topk(2, dim=-1).values.unbind(-1)
    differs = found.float().argmax(-1) != expected.float().argmax(-1)
    beyond = differs & (best - second > 2 * noise)
    if beyond.any():
        raise ComparisonError(
            f"{int(differs.sum())} tokens of {differs.numel()} differ, {int(beyond.sum())} of them "
            f"where the two best logits are further apart than twice the noise, {float(noise)}"
        )


class TestBfloat16CachedAgainstUncached:
    """Tokens may differ, but only where the two best are closer than bfloat16 can tell apart.

    The noise is what bfloat16 itself brings: the largest distance of the uncached bfloat16 logits
    from float32's with the same weights. The cached logits play no part in measuring it.
    """

    def _logits(self, ops: Ops) -> tuple[Tensor, Tensor, Tensor]:
        """Cached and uncached in bfloat16, and uncached in float32: `[8, 39, 128]`."""
        in_bfloat16 = tiny_pair("untied", torch.bfloat16).candidate
        in_float32 = QwenForCausalLM(in_bfloat16.model.config)
        in_float32.load_state_dict(in_bfloat16.model.state_dict())
        token_ids = random_token_ids(8, 39)
        return (
            in_bfloat16.with_ops(ops).logits(token_ids, (3, *(1,) * 36)),
            in_bfloat16.logits(token_ids),
            Candidate(in_float32).logits(token_ids),
        )

    # With sdpa as well, since a CPU without native bfloat16 may sum a row in the same order
    # whether or not other rows are there; then eager alone would try nothing.
    @pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
    def test_tokens_differ_only_within_the_noise(self, ops: Ops) -> None:
        check_same_up_to_noise(*self._logits(ops))

    def test_the_noise_is_put_to_use(self) -> None:
        cached, plain, _ = self._logits(SDPA)
        assert not torch.equal(cached.argmax(-1), plain.argmax(-1))

    def test_a_decode_step_that_does_not_see_its_own_token_differs_beyond_it(self) -> None:
        def blind(
            query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
        ) -> Tensor:
            if query.shape[2] == 1:
                key, value = key[:, :, :-1], value[:, :, :-1]
            return eager_attention(query, key, value, mask, scale)

        with pytest.raises(ComparisonError):
            check_same_up_to_noise(*self._logits(replace(EAGER, attention=blind)))
