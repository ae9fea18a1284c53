"""A key/value cache whose memory is taken once."""

import torch
from torch import Tensor

from augur_gen.errors import CacheFullError, GenerationError
from augur_model import QwenConfig, QwenForCausalLM


class StaticKVCache:
    """Fixed memory for the keys and values of `capacity` tokens; every row has the same length.

    An `augur_model.KVCache`. Written by position, so a decode step copies one token's keys and
    values and nothing else.

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
        self._length = 0

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
    def length(self) -> int:
        """Tokens held."""
        return self._length

    @property
    def capacity(self) -> int:
        """Tokens that fit."""
        return self.keys.shape[3]

    @property
    def num_bytes(self) -> int:
        """Memory taken, whatever is held."""
        return self.keys.nbytes + self.values.nbytes

    def check_room(self, num_tokens: int) -> None:
        """Raise `CacheFullError` if `num_tokens` more do not fit."""
        if self._length + num_tokens > self.capacity:
            raise CacheFullError(
                f"the cache holds {self._length} of {self.capacity} tokens; {num_tokens} more do "
                f"not fit. Make it with capacity {self._length + num_tokens} or more"
            )

    def update(self, layer_index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's new keys and values, and give views of all; see `KVCache.update`.

        Raises:
            CacheFullError: they do not fit. The first layer finds out, so nothing is written.
            GenerationError: another batch size, number of heads, head_dim or dtype.
        """
        num_tokens = keys.shape[2]
        self.check_room(num_tokens)
        self._check_fits("keys", keys, num_tokens)
        self._check_fits("values", values, num_tokens)
        end = self._length + num_tokens
        self.keys[layer_index, :, :, self._length : end] = keys
        self.values[layer_index, :, :, self._length : end] = values
        return self.keys[layer_index, :, :, :end], self.values[layer_index, :, :, :end]

    def advance(self, num_tokens: int) -> None:
        """Count tokens that every layer has written."""
        self._length += num_tokens

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens only; the next tokens overwrite the rest."""
        if not 0 <= length <= self._length:
            raise GenerationError(
                f"cannot keep {length} tokens of a cache that holds {self._length}"
            )
        self._length = length

    def _check_fits(self, name: str, heads: Tensor, num_tokens: int) -> None:
        _, batch, kv_heads, _, head_dim = self.keys.shape
        expected = (batch, kv_heads, num_tokens, head_dim)
        # Assignment would broadcast or convert in silence.
        if tuple(heads.shape) != expected or heads.dtype != self.keys.dtype:
            raise GenerationError(
                f"{name} is {heads.dtype} {list(heads.shape)}; the cache takes {self.keys.dtype} "
                f"{list(expected)} [batch, kv_heads, n, head_dim]"
            )
