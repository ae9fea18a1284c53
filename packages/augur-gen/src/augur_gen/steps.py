"""The two phases of inference: the prompt at once, then token by token."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from augur_gen.errors import GenerationError
from augur_model import KVCache, QwenForCausalLM


@torch.inference_mode()
def prefill(
    model: QwenForCausalLM,
    token_ids: Tensor,
    cache: KVCache,
    *,
    num_tokens: Sequence[int] | None = None,
    chunk_size: int | None = None,
) -> Tensor:
    """Feed any number of tokens, after whatever the cache holds, and give the logits of the last.

    Only the last position goes through the head, so in the last bits the logits can differ from
    those of a forward pass that computes all positions: they equal `logits_to_keep=1`, here and in
    transformers.

    Args:
        model: the network.
        token_ids: `[batch, length]`, integer, at least one token.
        cache: takes the keys and values of all of them.
        num_tokens: how many of each row are real, one at least; padding follows on their right.
            Left out: all are.
        chunk_size: feed at most this many tokens in one forward pass, so that memory grows with
            the chunk and not with the prompt. Left out: all at once.

    Returns:
        `[batch, vocab_size]`, in the model's dtype.

    Raises:
        GenerationError: no tokens, also in a row, or a chunk size below 1.
        CacheFullError: the tokens do not fit; nothing is written.
    """
    length = token_ids.shape[-1]
    if length == 0:
        raise GenerationError("there are no tokens to feed; give at least one")
    if chunk_size is not None and chunk_size < 1:
        raise GenerationError(f"chunk_size is {chunk_size}, expected at least 1")
    cache.check_room(length if num_tokens is None else num_tokens)
    if num_tokens is not None and min(num_tokens) < 1:
        raise GenerationError(f"num_tokens is {list(num_tokens)}; give each row at least one token")

    size = min(chunk_size or length, length)
    if num_tokens is None:
        *earlier_chunks, last_chunk = torch.split(token_ids, size, dim=-1)
        for chunk in earlier_chunks:
            model(chunk, cache=cache, logits_to_keep=0)
        logits: Tensor = model(last_chunk, cache=cache, logits_to_keep=1)
        return logits[:, -1]

    # Where rows differ, the last chunk is the end of each of them.
    before = [max(0, total - size) for total in num_tokens]
    for start in range(0, max(before), size):
        real = [min(max(0, count - start), size) for count in before]
        chunk = token_ids[:, start : start + size]
        model(chunk, cache=cache, num_tokens=real, logits_to_keep=0)
    columns = (torch.tensor(before)[:, None] + torch.arange(size)).clamp(max=length - 1)
    last_chunk = token_ids.gather(1, columns.to(token_ids.device))
    real = [min(total, size) for total in num_tokens]
    logits = model(last_chunk, cache=cache, num_tokens=real, logits_to_keep=1)
    return logits[:, -1]


@torch.inference_mode()
def decode_step(model: QwenForCausalLM, token_ids: Tensor, cache: KVCache) -> Tensor:
    """Feed one token of each sequence and give the logits of the next.

    Args:
        model: the network.
        token_ids: `[batch, 1]`, integer.
        cache: holds what came before, and takes this token's keys and values.

    Returns:
        `[batch, vocab_size]`, in the model's dtype.
    """
    logits: Tensor = model(token_ids, cache=cache, logits_to_keep=1)
    return logits[:, -1]


class Steps(Protocol):
    """How a generation gets logits: once for the prompt, then once for each token."""

    def prefill(self, token_ids: Tensor) -> Tensor:
        """`[batch, length]` -> `[batch, vocab_size]`: the last position's logits."""
        ...

    def decode(self, token_ids: Tensor) -> Tensor:
        """`[batch, 1]`, the token chosen last -> `[batch, vocab_size]`."""
        ...


class CachedSteps:
    """`prefill` and `decode_step` over one cache."""

    def __init__(
        self, model: QwenForCausalLM, cache: KVCache, *, chunk_size: int | None = None
    ) -> None:
        self._model = model
        self._cache = cache
        self._chunk_size = chunk_size

    def prefill(self, token_ids: Tensor) -> Tensor:
        """See `prefill`."""
        return prefill(self._model, token_ids, self._cache, chunk_size=self._chunk_size)

    def decode(self, token_ids: Tensor) -> Tensor:
        """See `decode_step`."""
        return decode_step(self._model, token_ids, self._cache)


class UncachedSteps:
    """The baseline: every token recomputes the whole sequence.

    Args:
        model: the network.
        logits_to_keep: None computes the logits of every position, as a plain forward pass does.
    """

    def __init__(self, model: QwenForCausalLM, *, logits_to_keep: int | None = None) -> None:
        self._model = model
        self._logits_to_keep = logits_to_keep
        self._token_ids: Tensor | None = None

    def prefill(self, token_ids: Tensor) -> Tensor:
        """Compute the prompt, and remember it."""
        self._token_ids = token_ids
        return self._last_logits(token_ids)

    def decode(self, token_ids: Tensor) -> Tensor:
        """Append the token, and compute all that there is so far."""
        if self._token_ids is None:
            raise GenerationError("decode was called before prefill")
        self._token_ids = torch.cat((self._token_ids, token_ids), dim=-1)
        return self._last_logits(self._token_ids)

    @torch.inference_mode()
    def _last_logits(self, token_ids: Tensor) -> Tensor:
        logits: Tensor = self._model(token_ids, logits_to_keep=self._logits_to_keep)
        return logits[:, -1]
