"""What attention asks of a key/value cache. Implementations live in augur-gen."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from augur_model.errors import ModelInputError
from augur_model.ops.table import Ops
from augur_model.ops.window import attention_within_window


class KVCache(ABC):
    """Keys and values of the tokens that each row of a batch has fed so far, layer by layer.

    A forward pass of n tokens calls `begin` once, `attend` once for each layer, then `advance`
    once. Until `advance`, `lengths` stays what it was, so a pass that fails midway leaves the cache
    as before.

    Rows are padded on the right where they bring different numbers of tokens: of the n of row r the
    first `num_tokens[r]` are real, and only they are stored. A plain number means all rows alike.
    """

    @property
    @abstractmethod
    def lengths(self) -> tuple[int, ...]:
        """Tokens that every layer holds, one number for each row."""

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(self.lengths, default=0)

    @abstractmethod
    def check_room(self, num_tokens: int | Sequence[int]) -> None:
        """Raise if `num_tokens` more do not fit, so that nothing is half written."""

    def begin(self, num_tokens: int | Sequence[int]) -> None:
        """A forward pass starts and brings so many tokens; what all layers share is made here."""
        self.check_room(num_tokens)

    def update(self, layer_index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store one layer's new keys and values after those held, and give all of them.

        `attend` asks for it; a cache with an `attend` of its own needs none.

        Args:
            layer_index: which decoder block is asking.
            keys: `[batch, num_kv_heads, n, head_dim]`, already rotated.
            values: as `keys`.

        Returns:
            keys and values of all tokens up to the new ones, `[batch, num_kv_heads, length + n,
            head_dim]`, each row's from its first token on. They may be views of the cache's memory:
            read, never written.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update, and no attend of its own")

    @abstractmethod
    def advance(self, num_tokens: int | Sequence[int]) -> None:
        """Count tokens that every layer has stored."""

    def attend(
        self,
        layer_index: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scale: float,
        window: int | None,
        ops: Ops,
    ) -> Tensor:
        """One layer's attention over what is held and the new tokens, which are stored.

        A cache that lays its memory out in another way answers in a way of its own.

        Args:
            layer_index: which decoder block is asking.
            query: `[batch, num_heads, n, head_dim]`, rotated.
            key: the new tokens', `[batch, num_kv_heads, n, head_dim]`, rotated.
            value: as `key`.
            mask: as for `eager_attention`; None: each token sees its own row up to itself.
            scale: what the scores are multiplied by.
            window: tokens that a query sees, itself included; None for all.
            ops: the implementations to compute with.

        Returns:
            `[batch, num_heads, n, head_dim]`.
        """
        key, value = self.update(layer_index, key, value)
        by_row = self.mask_by_row(query.shape[2], window)
        if by_row is None:
            return attention_within_window(query, key, value, mask, scale, window, ops)
        if mask is not None:
            by_row = mask if window is None else mask & by_row
        return ops.attention(query, key, value, by_row, scale)

    def mask_by_row(self, num_tokens: int, window: int | None) -> Tensor | None:  # noqa: ARG002
        """Which of the keys that `update` gives each new token sees, where rows differ.

        Returns:
            `[batch, 1, num_tokens, num_keys]`, bool; None where the tokens are the last of the keys
            in all rows, so that causality decides.
        """
        return None

    def by_row(self, num_tokens: int | Sequence[int]) -> tuple[int, ...]:
        """One number for each row.

        Raises:
            ModelInputError: as many numbers as there are rows were expected.
        """
        rows = len(self.lengths)
        if isinstance(num_tokens, int):
            return (num_tokens,) * rows
        if len(num_tokens) != rows:
            raise ModelInputError(
                f"there are {len(num_tokens)} numbers of tokens, and the cache has {rows} rows"
            )
        return tuple(num_tokens)
