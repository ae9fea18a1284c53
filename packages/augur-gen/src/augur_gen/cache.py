"""A key/value cache whose memory is taken once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from augur_gen.errors import CacheFullError, GenerationError
from augur_gen.ragged_rows import RaggedPass
from augur_model import KVCache, QwenConfig, QwenForCausalLM


class StaticKVCache(KVCache):
    """Fixed memory for the keys and values of `capacity` tokens in each row.

    Written by position, so a decode step copies one token's keys and values and nothing else. While
    rows are equally long, attention sees what is held and no more. Where they differ it sees as
    much of each as of the longest, and a mask hides the rest, which is zeros: no number that was
    dropped, not even a NaN, comes back through a mask.

    Args:
        config: of the model it serves.
        capacity: tokens it can hold, prompt and generated together.
        batch_size: sequences side by side.
        dtype: of keys and values, the model's.
        device: where the memory is taken.

    Attributes:
        keys: `[layers, batch, kv_heads, capacity, head_dim]`.
        values: as `keys`.

    Raises:
        GenerationError: capacity or batch size is not above 0.
    """

    def __init__(
        self,
        config: QwenConfig,
        capacity: int,
        *,
        batch_size: int = 1,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        for name, size in (("capacity", capacity), ("batch_size", batch_size)):
            if size < 1:
                raise GenerationError(f"the cache's {name} is {size}, expected at least 1")
        shape = (
            config.num_hidden_layers,
            batch_size,
            config.num_key_value_heads,
            capacity,
            config.head_dim,
        )
        # Zeros, not empty: the memory is taken here, not page by page during generation.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self._lengths = (0,) * batch_size
        self._brought: tuple[int, ...] | None = None
        self._ragged: RaggedPass | None = None

    @classmethod
    def for_model(
        cls, model: QwenForCausalLM, capacity: int, *, batch_size: int = 1
    ) -> "StaticKVCache":
        """A cache with the shapes, dtype and device of `model`."""
        return cls(
            model.config, capacity, batch_size=batch_size, dtype=model.dtype, device=model.device
        )

    @staticmethod
    def num_bytes_of(
        config: QwenConfig, capacity: int, *, batch_size: int = 1, dtype: torch.dtype
    ) -> int:
        """Memory that such a cache takes. Every layer has all `capacity` places, one with a
        sliding window, too."""
        heads = config.num_hidden_layers * config.num_key_value_heads
        return 2 * heads * batch_size * capacity * config.head_dim * dtype.itemsize

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens held by each row."""
        return self._lengths

    @property
    def capacity(self) -> int:
        """Tokens that fit."""
        return self.keys.shape[3]

    @property
    def num_bytes(self) -> int:
        """Memory taken, whatever is held."""
        return self.keys.untyped_storage().nbytes() + self.values.untyped_storage().nbytes()

    def check_room(self, num_tokens: int | Sequence[int]) -> None:
        """Raise `CacheFullError` if `num_tokens` more do not fit."""
        for row, (held, new) in enumerate(zip(self._lengths, self.by_row(num_tokens), strict=True)):
            if held + new > self.capacity:
                which = "the cache" if self._is_even else f"row {row} of the cache"
                raise CacheFullError(
                    f"{which} holds {held} of {self.capacity} tokens; {new} more do not fit. Make "
                    f"it with capacity {held + new} or more"
                )

    def begin(self, num_tokens: int | Sequence[int]) -> None:
        """See `KVCache.begin`."""
        super().begin(num_tokens)
        self._start_anew()
        self._brought = self.by_row(num_tokens)

    def update(self, layer_index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's new keys and values, and give views of all; see `KVCache.update`.

        Raises:
            CacheFullError: they do not fit. The first layer finds out, so nothing is written.
            GenerationError: another batch size, number of heads, head_dim or dtype.
        """
        num_tokens = keys.shape[2]
        self._check_fits("keys", keys, num_tokens)
        self._check_fits("values", values, num_tokens)
        ragged = self._ragged_pass(num_tokens)
        if ragged is None:
            self.check_room(num_tokens)
            start, end = self.length, self.length + num_tokens
            self.keys[layer_index, :, :, start:end] = keys
            self.values[layer_index, :, :, start:end] = values
        else:
            end = ragged.num_places
            for memory, new in ((self.keys, keys), (self.values, values)):
                real = new.transpose(1, 2)[ragged.rows, ragged.columns]
                memory[layer_index].transpose(1, 2)[ragged.rows, ragged.places] = real
        return self.keys[layer_index, :, :, :end], self.values[layer_index, :, :, :end]

    def mask_by_row(self, num_tokens: int, window: int | None) -> Tensor | None:
        """See `KVCache.mask_by_row`."""
        ragged = self._ragged_pass(num_tokens)
        return None if ragged is None or ragged.is_causal else ragged.mask(window)

    def advance(self, num_tokens: int | Sequence[int]) -> None:
        """Count tokens that every layer has written."""
        new = self.by_row(num_tokens)
        self._lengths = tuple(map(sum, zip(self._lengths, new, strict=True)))
        self._start_anew()

    def truncate(self, length: int | Sequence[int]) -> None:
        """Keep the first `length` tokens only, of all rows or of each its own number."""
        kept = self.by_row(length)
        for held, keep in zip(self._lengths, kept, strict=True):
            if not 0 <= keep <= held:
                raise GenerationError(f"cannot keep {keep} tokens of a cache that holds {held}")
        for row, (held, keep) in enumerate(zip(self._lengths, kept, strict=True)):
            self.keys[:, row, :, keep:held] = 0
            self.values[:, row, :, keep:held] = 0
        self._lengths = kept
        self._start_anew()

    def keep_rows(self, rows: Sequence[int]) -> None:
        """Drop all rows but these, which move up. The memory of the others stays taken.

        Raises:
            GenerationError: they are no rows of this cache, none at all, or not ascending.
        """
        rows, held = list(rows), range(len(self._lengths))
        if not rows or rows != [row for row in held if row in rows]:
            raise GenerationError(
                f"cannot keep rows {rows}; expected some of 0 to {held[-1]}, ascending"
            )
        used = slice(self.length)  # zeros after the end of a row move with it
        for place, row in enumerate(rows):
            if place != row:
                self.keys[:, place, :, used] = self.keys[:, row, :, used]
                self.values[:, place, :, used] = self.values[:, row, :, used]
        self.keys, self.values = self.keys[:, : len(rows)], self.values[:, : len(rows)]
        self._lengths = tuple(self._lengths[row] for row in rows)
        self._start_anew()

    @property
    def _is_even(self) -> bool:
        return len(set(self._lengths)) == 1

    def _start_anew(self) -> None:
        self._brought = self._ragged = None

    def _ragged_pass(self, num_columns: int) -> RaggedPass | None:
        """How to store and see this pass's tokens; None where rows are alike in all."""
        brought = self._brought or self.by_row(num_columns)
        if self._is_even and set(brought) == {num_columns}:
            return None
        if self._ragged is None:
            self._ragged = RaggedPass(self._lengths, brought, num_columns, self.keys.device)
        return self._ragged

    def _check_fits(self, name: str, heads: Tensor, num_tokens: int) -> None:
        _, batch, kv_heads, _, head_dim = self.keys.shape
        expected = (batch, kv_heads, num_tokens, head_dim)
        # Assignment would broadcast or convert in silence.
        if tuple(heads.shape) != expected or heads.dtype != self.keys.dtype:
            raise GenerationError(
                f"{name} is {heads.dtype} {list(heads.shape)}; the cache takes {self.keys.dtype} "
                f"{list(expected)} [batch, kv_heads, n, head_dim]"
            )
