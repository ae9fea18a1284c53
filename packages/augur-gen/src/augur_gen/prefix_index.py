"""Which block holds the keys of which tokens: prompts that begin alike find them again."""

from collections.abc import Iterable

from augur_gen.errors import GenerationError

Key = tuple[int | None, tuple[int, ...]]
"""The block before it, None for the first, and the tokens of its own."""


class PrefixIndex:
    """Full blocks, each found by the block before it and its own tokens.

    So the blocks found for a prompt are a chain that one sequence computed, one after another: the
    key of each stands for all the tokens before it. It is looked up by its hash and then compared,
    token by token, as a `dict` does; two prompts with one hash never get each other's keys.

    A block is forgotten before the one it follows: see `BlockAllocator`.
    """

    def __init__(self) -> None:
        self._blocks: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._keys

    def find(self, pieces: Iterable[tuple[int, ...]]) -> list[int]:
        """The blocks of the longest beginning that is known.

        Args:
            pieces: tokens of the first block, of the second, and so on.
        """
        found: list[int] = []
        before = None
        for piece in pieces:
            before = self._blocks.get((before, piece))
            if before is None:
                break
            found.append(before)
        return found

    def add(self, block: int, before: int | None, token_ids: tuple[int, ...]) -> bool:
        """Make a block findable; False where another with the same tokens is already."""
        key = (before, token_ids)
        if key in self._blocks:
            return False
        self._blocks[key] = block
        self._keys[block] = key
        return True

    def forget(self, block: int) -> None:
        """It is not found any more."""
        del self._blocks[self._keys.pop(block)]

    def check_integrity(self) -> None:
        """Raise `GenerationError` if a key and its block disagree, or a chain has a gap."""
        for block, key in self._keys.items():
            if self._blocks.get(key) != block:
                raise GenerationError(f"block {block} is not found under its own key")
            if key[0] is not None and key[0] not in self._keys:
                raise GenerationError(f"block {block} follows {key[0]}, which is forgotten")
        if len(self._blocks) != len(self._keys):
            raise GenerationError("a key finds a block that does not have it")
