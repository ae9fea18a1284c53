"""Fused attention, a cache and chunks change how sums are ordered, and nothing else.

What they are held to is the eager model without a cache, which equals transformers bit for bit.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from augur_gen import StopConditions, generate
from augur_model import EAGER, SDPA, Ops, QwenForCausalLM
from augur_model.ops import eager_attention
from candidate import candidate_logits, with_ops
from comparison import (
    DTYPES,
    WHOLE_MODEL,
    ComparisonError,
    check_close,
    check_same_up_to_noise,
)
from tiny_pairs import TINY_CONFIGS, random_token_ids, tiny_pair

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
each_config = pytest.mark.parametrize("name", TINY_CONFIGS)
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
@each_config
@each_path
def test_logits_stay_within_tolerance_and_float32_prefers_the_same_tokens(
    ops: Ops, sizes: tuple[int, ...] | None, name: str, dtype: torch.dtype
) -> None:
    reference = tiny_pair(name, dtype).candidate
    token_ids = random_token_ids(2, 39)
    found = candidate_logits(with_ops(reference, ops), token_ids, sizes)
    expected = candidate_logits(reference, token_ids)
    check_close(found, expected, WHOLE_MODEL[dtype])
    if dtype == torch.float32:
        assert torch.equal(found.argmax(-1), expected.argmax(-1))


@pytest.mark.parametrize("name", ["untied", "tied"])
@pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
def test_greedy_tokens_in_float32_are_those_of_the_uncached_reference(ops: Ops, name: str) -> None:
    reference = tiny_pair(name, torch.float32).candidate
    model = with_ops(reference, ops)
    stop = StopConditions(max_new_tokens=24)
    for prompt in random_token_ids(3, 19).tolist():
        expected = generate(reference, prompt, stop, use_cache=False).run().token_ids
        assert len(set(expected)) > 2
        for chunk_size in (None, 1, 5):
            cached = generate(model, prompt, stop, chunk_size=chunk_size).run().token_ids
            assert cached == expected
        assert generate(model, prompt, stop, use_cache=False).run().token_ids == expected


class TestBfloat16CachedAgainstUncached:
    """Tokens may differ, but only where the two best are closer than bfloat16 can tell apart.

    The noise is what bfloat16 itself brings: the largest distance of the uncached bfloat16 logits
    from float32's with the same weights. The cached logits play no part in measuring it.
    """

    def _logits(self, ops: Ops) -> tuple[Tensor, Tensor, Tensor]:
        """Cached and uncached in bfloat16, and uncached in float32: `[8, 39, 128]`."""
        uncached = tiny_pair("untied", torch.bfloat16).candidate
        in_float32 = QwenForCausalLM(uncached.config)
        in_float32.load_state_dict(uncached.state_dict())
        token_ids = random_token_ids(8, 39)
        return (
            candidate_logits(with_ops(uncached, ops), token_ids, (3, *(1,) * 36)),
            candidate_logits(uncached, token_ids),
            candidate_logits(in_float32, token_ids),
        )

    # With sdpa as well, since a CPU without native bfloat16 may sum a row in the same order
    # whether or not other rows are there; then eager alone would try nothing.
    @pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
    def test_tokens_differ_only_within_the_noise(self, ops: Ops) -> None:
        check_same_up_to_noise(*self._logits(ops))

    def test_the_noise_is_put_to_use(self) -> None:
        cached, uncached, _ = self._logits(SDPA)
        assert not torch.equal(cached.argmax(-1), uncached.argmax(-1))

    def test_a_decode_step_that_does_not_see_its_own_token_differs_beyond_it(self) -> None:
        def blind(
            query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
        ) -> Tensor:
            if query.shape[2] == 1:
                key, value = key[:, :, :-1], value[:, :, :-1]
            return eager_attention(query, key, value, mask, scale)

        with pytest.raises(ComparisonError):
            check_same_up_to_noise(*self._logits(replace(EAGER, attention=blind)))
