"""The compiled decode step: one decoder block, compiled once and used for every layer.

Nothing in it changes its shape from token to token, so nothing is compiled again: keys and values
are written at a position that is a tensor, attention is always shown the cache's whole capacity,
and a mask hides what is not written yet.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from augur_bench.errors import RungUnavailableError
from augur_gen import StaticKVCache, Steps, prefill
from augur_model import DecoderLayer, Ops, QwenForCausalLM
from augur_proof import NewSteps


def compiled(backend: str | Callable[..., Any] = "inductor") -> NewSteps:
    """Prefill as it stands; decode through `torch.compile`, with this backend of it."""

    @functools.cache
    def compiled_block() -> Callable[..., Tensor]:
        # fullgraph: a part that cannot be compiled is an error, not a silent step back to eager.
        return torch.compile(block, fullgraph=True, dynamic=False, backend=backend)

    def new_steps(model: QwenForCausalLM, capacity: int) -> Steps:
        check_windows(model, capacity)
        return CompiledSteps(model, StaticKVCache.for_model(model, capacity), compiled_block())

    return new_steps


def check_windows(model: QwenForCausalLM, capacity: int) -> None:
    """Raise `RungUnavailableError` where a layer may not look at the whole cache."""
    for window in model.config.attention_windows:
        if window is not None and window < capacity:
            raise RungUnavailableError(
                f"it shows attention all {capacity} places of the cache at once, and this model "
                f"has layers that look at the last {window} tokens alone"
            )


class CompiledSteps(Steps):
    """A sequence whose decode steps run the same `block` for every layer, compiled or as it is."""

    def __init__(
        self, model: QwenForCausalLM, cache: StaticKVCache, block: Callable[..., Tensor]
    ) -> None:
        self._model, self._cache, self._block = model, cache, block

    def prefill(self, token_ids: Tensor) -> Tensor:
        """`[batch, length]` -> `[batch, vocab_size]`, not compiled: each length is a new shape."""
        return prefill(self._model, token_ids, self._cache)

    @torch.inference_mode()
    def decode(self, token_ids: Tensor) -> Tensor:
        """`[batch, 1]` -> `[batch, vocab_size]`."""
        self._cache.check_room(1)
        logits = self._forward(
            token_ids, torch.tensor([self._cache.length], device=token_ids.device)
        )
        self._cache.advance(1)
        return logits

    def _forward(self, token_ids: Tensor, position: Tensor) -> Tensor:
        """The step, whose shapes are the same at every position, `[1]`."""
        cache, model, ops = self._cache, self._model, self._model.ops
        mask = (torch.arange(cache.capacity, device=token_ids.device) <= position)[None]
        decoder = model.model
        hidden_states = decoder.embed_tokens(token_ids)
        cos, sin = decoder.rotary_emb(position[None], hidden_states.dtype)
        for layer, keys, values in zip(decoder.layers, cache.keys, cache.values, strict=True):
            hidden_states = self._block(
                layer, hidden_states, cos, sin, mask, keys, values, position, ops
            )
        logits: Tensor = model.lm_head(decoder.norm(hidden_states, ops), ops)
        return logits[:, -1]


def block(
    layer: DecoderLayer,
    hidden_states: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    ops: Ops,
) -> Tensor:
    """One decoder block over one layer's memory, `[batch, kv_heads, capacity, head_dim]`."""
    output: Tensor = layer(hidden_states, cos, sin, mask, _WholeLayer(keys, values, position), ops)
    return output


class _WholeLayer:
    """One layer's keys and values, written at a position and shown whole: an `attend` and no more.

    Each layer gets its own, so the layer's index is never looked at. That lets one compiled
    function serve them all.
    """

    def __init__(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        self._memory = keys, values, position

    def attend(
        self, _layer_index: int, query: Tensor, key: Tensor, value: Tensor, *how: Any
    ) -> Tensor:
        mask, scale, _window, ops = how
        keys, values, position = self._memory
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, value)
        output: Tensor = ops.attention(query, keys, values, mask, scale)
        return output


def missing_compiler(device: torch.device) -> str | None:
    """What keeps `torch.compile` from working here: tried out on a sum, None where it works."""
    try:
        torch.compile(_plus_one)(torch.ones(4, device=device))
    except Exception as error:  # whatever the compiler's many parts raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        return f"torch.compile does not work here: {type(error).__name__}: {reason}"
    return None


def _plus_one(values: Tensor) -> Tensor:
    return values + 1
