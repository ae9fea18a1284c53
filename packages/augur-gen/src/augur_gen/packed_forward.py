"""How a row of many sequences is computed: as fast as it goes, or so that it can be proven."""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from augur_gen.packed_pass import PackedPass
from augur_model import Ops, QwenForCausalLM

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
