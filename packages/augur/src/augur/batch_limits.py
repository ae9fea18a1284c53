"""How many texts are answered together, and what their cache may take."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from operator import itemgetter

from augur.errors import OptionError
from augur.free_memory import free_memory_bytes, require_memory
from augur_gen import BLOCK_SIZE, BlockPool
from augur_model import QwenForCausalLM

MAX_RUNNING = 16
BATCH_TOKENS = 256


@dataclass(frozen=True)
class BatchLimits:
    """None of them changes an answer but where two tokens are nearly equally likely.

    A matrix library sums in an order that goes by the number of rows, so logits in company differ
    from those alone in their last bits.

    Attributes:
        max_running: texts that are generated at a time. 1 answers each alone, with the bits that it
            has alone.
        batch_tokens: that one step feeds, all texts together, prompts in chunks. None: 256, or
            `max_running` where that is more.
        cache_memory: bytes for the keys and values of all. None: what the `max_running` longest can
            need, but at most half of what is free.

    Raises:
        OptionError: a value is no integer or outside its range, or says nothing beside another.
    """

    max_running: int = MAX_RUNNING
    batch_tokens: int | None = None
    cache_memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_running", "batch_tokens", "cache_memory"):
            value = getattr(self, name)
            if value is None and name != "max_running":
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{{{name}}} is %r, expected an integer from 1 up", value)
            if self.max_running == 1 and name != "max_running":
                raise OptionError(
                    f"{{{name}}} is about texts that are answered together, and {{max_running}} 1 "
                    "answers each alone. Leave one of them out"
                )
        if self.batch_tokens is not None and self.batch_tokens < self.max_running:
            raise OptionError(
                "{batch_tokens} is %d, fewer than {max_running}, which is %d: each text that runs "
                "feeds a token in every step. Give more {batch_tokens} or a smaller {max_running}",
                self.batch_tokens,
                self.max_running,
            )

    @property
    def max_step_tokens(self) -> int:
        """`batch_tokens`, decided."""
        return self.batch_tokens or max(BATCH_TOKENS, self.max_running)

    def make_pool(
        self, model: QwenForCausalLM, needed: Sequence[tuple[int, int, str]]
    ) -> BlockPool:
        """Blocks for texts; each of them fits in alone.

        Args:
            model: that generates them.
            needed: tokens that a text stores at most, how many such texts, and a name for messages.

        Raises:
            OptionError: the largest does not fit into `cache_memory`.
            NoRoomError: the device has too little memory free.
        """
        block_bytes = BlockPool.block_bytes(model.config, model.dtype)
        most_tokens, _, name = max(needed, key=itemgetter(0))
        largest = _blocks_for(most_tokens)
        if self.cache_memory is None:
            num_blocks, left = 0, self.max_running
            for tokens, count, _ in sorted(needed, reverse=True):
                # And the one that the scheduler keeps free for each that runs.
                num_blocks += (_blocks_for(tokens) + 1) * min(count, left)
                left -= min(count, left)
            free = free_memory_bytes(model.device)
            if free is not None:
                # The other half is for the forward passes, and for whoever else is on the machine.
                num_blocks = max(largest, min(num_blocks, free // 2 // block_bytes))
        else:
            num_blocks = self.cache_memory // block_bytes
            if num_blocks < largest:
                raise OptionError(
                    "%s: prompt and answer may take %d tokens, whose keys and values need %d "
                    "bytes; {cache_memory} is %d. Give more, shorten the prompt, or ask for fewer "
                    "tokens",
                    name,
                    most_tokens,
                    largest * block_bytes,
                    self.cache_memory,
                )
        require_memory(
            f"the keys and values of {num_blocks * BLOCK_SIZE:,} tokens",
            num_blocks * block_bytes,
            model.device,
            "Give a smaller {cache_memory}, shorten the prompts or ask for fewer tokens, or use a "
            "{dtype} of fewer bytes",
        )
        return BlockPool(model.config, num_blocks, dtype=model.dtype, device=model.device)


def _blocks_for(num_tokens: int) -> int:
    return max(1, -(-num_tokens // BLOCK_SIZE))
