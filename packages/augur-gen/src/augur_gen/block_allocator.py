"""Which blocks of a pool are free, and how many sequences hold each of the others."""

from collections import Counter, deque

from augur_gen.errors import CacheFullError, GenerationError
from augur_gen.prefix_index import PrefixIndex


class BlockAllocator:
    """Numbers of blocks, given out and taken back. It knows of no tensor.

    A block is held, by one sequence or by several; or kept, where nobody holds it and the index
    of prefixes knows it; or free. When none is free, the kept block goes that was let go longest
    ago. A sequence holds what comes before a block as long as the block, and lets go of the last
    block first, so a block is given away before the one it follows.

    Args:
        num_blocks: there are, all free.
        index: of prefixes; told when a block is given away.
    """

    def __init__(self, num_blocks: int, index: PrefixIndex) -> None:
        self.num_blocks = num_blocks
        self._index = index
        self._free = deque(range(num_blocks))
        self._kept: dict[int, None] = {}  # in the order in which they were let go
        self._holders: Counter[int] = Counter()

    @property
    def num_available(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free) + len(self._kept)

    @property
    def num_in_use(self) -> int:
        """Blocks that somebody holds, each counted once."""
        return len(self._holders)

    def take(self) -> int:
        """A block for one holder.

        Raises:
            CacheFullError: none is available.
        """
        if self._free:
            block = self._free.popleft()
        elif self._kept:
            block = next(iter(self._kept))
            del self._kept[block]
            self._index.forget(block)
        else:
            raise CacheFullError(f"all {self.num_blocks} blocks are held")
        self._holders[block] = 1
        return block

    def share(self, block: int) -> None:
        """One more holder of a block that is held or kept."""
        self._kept.pop(block, None)
        self._holders[block] += 1

    def is_writable(self, block: int) -> bool:
        """Whether it has one holder, and nobody finds it who would read it."""
        return self._holders[block] == 1 and block not in self._index

    def release(self, block: int) -> None:
        """One holder less. What the index knows is kept."""
        self._holders[block] -= 1
        if self._holders[block]:
            return
        del self._holders[block]
        if block in self._index:
            self._kept[block] = None
        else:
            self._free.append(block)

    def check_integrity(self, held: Counter[int]) -> None:
        """Raise `GenerationError` unless each block is in one state, and held as often as told.

        Args:
            held: how many sequences have each block.
        """
        if held != self._holders:
            raise GenerationError(f"blocks are held {dict(held)}, counted {dict(self._holders)}")
        every = sorted([*self._free, *self._kept, *self._holders])
        if every != list(range(self.num_blocks)):
            raise GenerationError(f"blocks {every} of {self.num_blocks} are accounted for")
        for blocks, known in ((self._kept, True), (self._free, False)):
            wrong = [block for block in blocks if (block in self._index) != known]
            if wrong:
                raise GenerationError(f"blocks {wrong}: kept means found by the index, free not")
        self._index.check_integrity()
