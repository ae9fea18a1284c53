"""One sequence over the blocks of a pool, for whoever generates one."""

from collections.abc import Sequence

from torch import Tensor

from augur_gen.block_pool import BlockPool, BlockTable
from augur_gen.packed_pass import PackedPass
from augur_model import KVCache, Ops


class PagedKVCache(KVCache):
    """A cache of one row that takes memory block by block, as it is filled.

    Whatever takes a `KVCache` takes it: `prefill`, `decode_step`, `generate`. Several may live on
    one pool.

    Args:
        pool: what it takes blocks from.
    """

    _pass: PackedPass

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._table = BlockTable()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens held."""
        return (self._table.length,)

    def check_room(self, num_tokens: int | Sequence[int]) -> None:
        """Raise `CacheFullError` if `num_tokens` more do not fit."""
        [count] = self.by_row(num_tokens)
        self._pool.check_room(self._table, count)

    def begin(self, num_tokens: int | Sequence[int]) -> None:
        """Take the blocks that are needed."""
        [count] = self.by_row(num_tokens)
        self._pool.grow(self._table, count)
        self._pass = PackedPass(self._pool, [self._table], [count])

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
        """See `PackedPass.attend`."""
        return self._pass.attend(layer_index, query, key, value, mask, scale, window, ops)

    def advance(self, num_tokens: int | Sequence[int]) -> None:
        """Count tokens that every layer has stored."""
        [count] = self.by_row(num_tokens)
        self._table.length += count

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens, and give back the blocks of the others."""
        self._pool.truncate(self._table, length)

    def release(self) -> None:
        """Give back all blocks."""
        self._pool.release(self._table)
