"""One forward pass over tokens of many sequences, in one row and without padding."""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from augur_gen.block_pool import BlockPool, BlockTable
from augur_gen.errors import GenerationError
from augur_model import KVCache, Ops, QwenForCausalLM
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


PackedForward = Callable[[QwenForCausalLM, Sequence[int], PackedPass, Sequence[int]], Tensor]
"""Model, token ids `total`, their pass, places in the row -> `[places, vocab_size]` logits."""


@torch.inference_mode()
def packed_forward(
    model: QwenForCausalLM, token_ids: Sequence[int], packed: PackedPass, kept: Sequence[int]
) -> Tensor:
    """Feed the row, and give the logits of what follows some of its tokens.

    Args:
        model: the network.
        token_ids: of all sequences, one after another.
        packed: the pass they make.
        kept: places in the row.

    Returns:
        `[len(kept), vocab_size]`, in the model's dtype.
    """
    logits: Tensor = model(
        torch.tensor([token_ids], device=model.device),
        packed.positions,
        cache=packed,
        logits_to_keep=torch.tensor(kept, dtype=torch.int64) if kept else 0,
    )
    return logits[0]


def packed_forward_by_sequence(
    model: QwenForCausalLM, token_ids: Sequence[int], packed: PackedPass, kept: Sequence[int]
) -> Tensor:
    """As `packed_forward`, with sums that do not depend on what else is in the row.

    Slow, for proof: logits equal those of each sequence alone, fed in the same chunks, to the bit.
    """
    apart = copy.copy(model)  # the same weights; the model that was given keeps its table
    apart.ops = _ops_by_sequence(model.ops, packed.counts)
    return packed_forward(apart, token_ids, packed, kept)


def _ops_by_sequence(ops: Ops, counts: Sequence[int]) -> Ops:
    """The table with what is sensitive to its neighbours computed one sequence at a time.

    Sums are, whose order the matrix library chooses by the shape; and the activation is, whose
    exponential takes another path for the last few numbers of a tensor than for whole vectors.
    """

    def apart(compute: Callable[..., Tensor], num_inputs: int = 1) -> Callable[..., Tensor]:
        def computed(*args: Any) -> Tensor:
            total = args[0].shape[1]
            # The head is given one token of a sequence, or as many as there are: then each has one.
            sizes = list(counts) if total == sum(counts) else [1] * total or [0]
            split = [torch.split(tokens, sizes, dim=1) for tokens in args[:num_inputs]]
            # Copies begin where memory is aligned, as a lone run's tensors do.
            each = ([part.clone() for part in parts] for parts in zip(*split, strict=True))
            return torch.cat([compute(*parts, *args[num_inputs:]) for parts in each], dim=1)

        return computed

    return dataclasses.replace(
        ops, linear=apart(ops.linear), rms_norm=apart(ops.rms_norm), swiglu=apart(ops.swiglu, 2)
    )
