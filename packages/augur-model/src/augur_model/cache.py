"""What attention asks of a key/value cache. Implementations live in augur-gen."""

from typing import Protocol

from torch import Tensor


class KVCache(Protocol):
    """Keys and values of the tokens that a sequence has fed so far, layer by layer.

    A forward pass of n tokens calls `update` once for each layer, then `advance(n)` once. Until
    `advance`, `length` stays what it was, so a pass that fails midway leaves the cache as before.
    """

    @property
    def length(self) -> int:
        """Tokens held by every layer."""
        ...

    def check_room(self, num_tokens: int) -> None:
        """Raise if `num_tokens` more do not fit, so that nothing is half written."""
        ...

    def update(self, layer_index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store one layer's new keys and values after the `length` held, and give all of them.

        Args:
            layer_index: which decoder block is asking.
            keys: `[batch, num_kv_heads, n, head_dim]`, already rotated.
            values: as `keys`.

        Returns:
            keys and values of all tokens up to the new ones,
            `[batch, num_kv_heads, length + n, head_dim]`. They may be views of the cache's memory:
            read, never written.
        """
        ...

    def advance(self, num_tokens: int) -> None:
        """Count tokens that every layer has stored."""
        ...
