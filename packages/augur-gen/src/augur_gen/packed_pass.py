"""One forward pass over tokens of many sequences, in one row and without padding."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from augur_gen.block_pool import BlockPool, BlockTable
from augur_gen.errors import GenerationError
from augur_model import KVCache, Ops
from augur_model.ops import Pages


class PackedPass(KVCache):
    """What attention asks in one pass: where each token of the row goes, and what it may see.

    The row is the batch's only one; the model knows nothing of the sequences in it. A pass is made
    for one forward pass and counts the tables' lengths up at its end.

    Args:
        pool: has room for the tokens: see `BlockPool.grow`.
        tables: of the sequences, in the order of their tokens in the row.
        counts: tokens that each brings, one at least.

    Attributes:
        tables: as given.
        counts: as given.
        positions: `[1, total]`, of each token in its sequence.
    """

    def __init__(
        self, pool: BlockPool, tables: Sequence[BlockTable], counts: Sequence[int]
    ) -> None:
        self._pool = pool
        self.tables = tables
        self.counts = tuple(counts)
        device, size = pool.keys.device, pool.block_size
        held = torch.tensor([table.length for table in tables])
        ends = torch.tensor(list(accumulate(counts)))
        brought = torch.tensor(self.counts)
        positions = torch.arange(sum(counts)) + (held - ends + brought).repeat_interleave(brought)
        most = max(len(table.blocks) for table in tables)
        padded = [t.blocks + t.blocks[-1:] * (most - len(t.blocks)) for t in tables]
        blocks = torch.tensor(padded)
        row = torch.arange(len(tables)).repeat_interleave(brought)
        slots = blocks[row, positions // size] * size + positions % size
        self.positions = positions[None].to(device)
        self._slots = slots.to(device)
        self._pages = Pages(self.counts, tuple((held + brought).tolist()), blocks.to(device))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The row is new in each pass: what its sequences hold, their positions tell."""
        return (0,)

    def check_room(self, num_tokens: int | Sequence[int]) -> None:
        """Raise `GenerationError` unless it is all of the pass."""
        if self.by_row(num_tokens) != (sum(self.counts),):
            raise GenerationError(f"{num_tokens} tokens are fed, the pass has {sum(self.counts)}")

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
        """Store the row's keys and values, then look: tokens of one pass may share new blocks."""
        if mask is not None:
            raise GenerationError("pages take no mask; each token sees its own sequence")
        if query.shape[:3:2] != (1, len(self._slots)):
            raise GenerationError(
                f"query is {list(query.shape)}; these pages take [1, num_heads, "
                f"{len(self._slots)}, head_dim]: one row, no padding"
            )
        blocks = self._pool.keys[layer_index], self._pool.values[layer_index]
        for memory, new in zip(blocks, (key, value), strict=True):
            memory.flatten(0, 1)[self._slots] = new[0].transpose(0, 1)
        return ops.paged_attention(query, *blocks, self._pages, scale, window, ops.attention)

    def advance(self, num_tokens: int | Sequence[int]) -> None:  # noqa: ARG002  (all of the pass)
        """Count the tokens of each sequence."""
        for table, count in zip(self.tables, self.counts, strict=True):
            table.length += count
        self._pool.mark_stored()
