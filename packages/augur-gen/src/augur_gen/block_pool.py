"""Memory for the keys and values of many sequences, in blocks of a few tokens."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from augur_gen.block_allocator import BlockAllocator
from augur_gen.errors import CacheFullError, GenerationError
from augur_gen.prefix_index import PrefixIndex
from augur_model import QwenConfig, QwenForCausalLM

BLOCK_SIZE = 16


@dataclass(eq=False)
class BlockTable:
    """Where one sequence's keys and values are.

    Attributes:
        blocks: in the order of its tokens. Others may hold them, too.
        length: tokens that are stored.
        num_published: blocks, from the first on, that the index of prefixes finds.
    """

    blocks: list[int] = field(default_factory=list)
    length: int = 0
    num_published: int = 0


class BlockPool:
    """Fixed memory in blocks, handed out to sequences, and the prefixes that can be found in it.

    A sequence has a `BlockTable`: `reuse` begins it, `grow` makes room, whoever stores tokens
    counts its `length` up, `publish` lets others find what is full, `release` ends it.

    Args:
        config: of the model it serves.
        num_blocks: blocks there are.
        block_size: tokens in each.
        dtype: of keys and values, the model's.
        device: where the memory is taken.

    Attributes:
        keys: `[layers, num_blocks, block_size, kv_heads, head_dim]`.
        values: as `keys`.

    Raises:
        GenerationError: there is no block, or no token in one.
    """

    def __init__(
        self,
        config: QwenConfig,
        num_blocks: int,
        *,
        block_size: int = BLOCK_SIZE,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        for name, size in (("num_blocks", num_blocks), ("block_size", block_size)):
            if size < 1:
                raise GenerationError(f"the pool's {name} is {size}, expected at least 1")
        heads = (config.num_key_value_heads, config.head_dim)
        shape = (config.num_hidden_layers, num_blocks, block_size, *heads)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.block_size = block_size
        self._index = PrefixIndex()
        self._allocator = BlockAllocator(num_blocks, self._index)
        self._awaited: set[int] = set()  # published, and not stored yet

    @classmethod
    def for_model(
        cls, model: QwenForCausalLM, memory_bytes: int, *, block_size: int = BLOCK_SIZE
    ) -> "BlockPool":
        """As many blocks as go into so much memory, with the shapes, dtype and device of `model`.

        Raises:
            GenerationError: not even one does.
        """
        each = cls.block_bytes(model.config, model.dtype, block_size)
        if memory_bytes < each:
            raise GenerationError(
                f"the cache is to take {memory_bytes} bytes; one block of {block_size} tokens "
                f"takes {each}. Give it more memory"
            )
        return cls(
            model.config,
            memory_bytes // each,
            block_size=block_size,
            dtype=model.dtype,
            device=model.device,
        )

    @staticmethod
    def block_bytes(config: QwenConfig, dtype: torch.dtype, block_size: int = BLOCK_SIZE) -> int:
        """Memory of one block, its keys and values in all layers."""
        heads = config.num_hidden_layers * config.num_key_value_heads
        return 2 * heads * block_size * config.head_dim * dtype.itemsize

    @property
    def num_blocks(self) -> int:
        """Blocks there are."""
        return self._allocator.num_blocks

    @property
    def num_available(self) -> int:
        """Blocks that no sequence holds."""
        return self._allocator.num_available

    @property
    def num_in_use(self) -> int:
        """Blocks that sequences hold; one that is shared counts once."""
        return self._allocator.num_in_use

    @property
    def num_bytes(self) -> int:
        """Memory taken, whatever is held."""
        return self.keys.untyped_storage().nbytes() + self.values.untyped_storage().nbytes()

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that so many tokens of one sequence take."""
        return -(-num_tokens // self.block_size)

    def reuse(self, token_ids: Sequence[int]) -> BlockTable:
        """A table that begins with what is stored of these tokens already.

        Never with all of them: the last has to be fed, for the logits of what follows.
        """
        size = self.block_size
        ends = range(size, len(token_ids) + 1, size)
        found = self._index.find(tuple(token_ids[end - size : end]) for end in ends)
        if len(found) * size == len(token_ids) and found[-1] in self._awaited:
            found.pop()  # it would be copied, for the last token, and has nothing to copy yet
        for block in found:
            self._allocator.share(block)
        return BlockTable(found, min(len(found) * size, len(token_ids) - 1), len(found))

    def blocks_needed(self, table: BlockTable, num_tokens: int) -> int:
        """Blocks that have to be taken before `num_tokens` more are stored."""
        missing = self.blocks_for(table.length + num_tokens) - len(table.blocks)
        return max(0, missing) + self._must_copy(table)

    def check_room(self, table: BlockTable, num_tokens: int) -> None:
        """Raise `CacheFullError` if there are not enough blocks for `num_tokens` more."""
        needed = self.blocks_needed(table, num_tokens)
        if needed > self.num_available:
            raise CacheFullError(
                f"{num_tokens} more tokens need {needed} blocks; {self.num_available} of "
                f"{self.num_blocks} are free. Wait until others end, or give the cache more memory"
            )

    def grow(self, table: BlockTable, num_tokens: int) -> None:
        """Make room for `num_tokens` more.

        A block that is begun and that others read is copied first. One that is new is zeros: where
        attention masks what stands after the last token, it masks no NaN of an earlier sequence.

        Raises:
            CacheFullError: there are not enough blocks; nothing was taken.
        """
        self.check_room(table, num_tokens)
        if self._must_copy(table):
            last = table.length // self.block_size
            old, new = table.blocks[last], self._allocator.take()
            for memory in (self.keys, self.values):
                memory[:, new] = memory[:, old]
            table.blocks[last], table.num_published = new, last
            self._allocator.release(old)
        missing = self.blocks_for(table.length + num_tokens) - len(table.blocks)
        taken = [self._allocator.take() for _ in range(missing)]
        if taken:
            for memory in (self.keys, self.values):
                memory[:, taken] = 0
        table.blocks += taken

    def publish(
        self, table: BlockTable, num_tokens: int, token_ids: Callable[[int, int], list[int]]
    ) -> None:
        """Let others find the blocks that are full once `num_tokens` are stored.

        That may be before they are, in a pass that is to come: `mark_stored` ends it.

        Args:
            table: of the sequence.
            num_tokens: it then has.
            token_ids: gives its tokens from one place to another.
        """
        size = self.block_size
        while (table.num_published + 1) * size <= num_tokens:
            start = table.num_published * size
            block = table.blocks[table.num_published]
            before = table.blocks[table.num_published - 1] if table.num_published else None
            if not self._index.add(block, before, tuple(token_ids(start, start + size))):
                break  # another block is found for them, and what follows ours is not
            self._awaited.add(block)
            table.num_published += 1

    def mark_stored(self) -> None:
        """All that was published is stored by now."""
        self._awaited.clear()

    def clear(self) -> None:
        """All blocks are free, and nothing is found: tables that are in use are of no more use."""
        num_blocks, self._index = self.num_blocks, PrefixIndex()
        self._allocator = BlockAllocator(num_blocks, self._index)
        self._awaited.clear()

    def truncate(self, table: BlockTable, length: int) -> None:
        """Keep the first `length` tokens, and let go of blocks that hold none of them."""
        if not 0 <= length <= table.length:
            raise GenerationError(
                f"cannot keep {length} tokens of a sequence that holds {table.length}"
            )
        kept = self.blocks_for(length)
        while len(table.blocks) > kept:  # the last first, see BlockAllocator
            self._allocator.release(table.blocks.pop())
        table.length, table.num_published = length, min(table.num_published, kept)

    def release(self, table: BlockTable) -> None:
        """Let go of all blocks. Those that are found stay until their memory is needed."""
        self.truncate(table, 0)

    def check_integrity(self, tables: Iterable[BlockTable]) -> None:
        """Raise `GenerationError` unless the counts are those of these tables, all there are."""
        tables = list(tables)
        self._allocator.check_integrity(Counter(b for table in tables for b in table.blocks))
        for table in tables:
            if len(table.blocks) != self.blocks_for(table.length):
                raise GenerationError(f"{table.length} tokens lie in {len(table.blocks)} blocks")
            if len(set(table.blocks)) != len(table.blocks):
                raise GenerationError(f"a block is twice in {table.blocks}")

    def _must_copy(self, table: BlockTable) -> bool:
        last, filled = divmod(table.length, self.block_size)
        return bool(filled) and not self._allocator.is_writable(table.blocks[last])
