"""augur's side of every comparison: the same weights, the same tokens."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM

from augur_gen import StaticKVCache
from augur_model import EAGER, Ops, QwenConfig, QwenForCausalLM
from augur_weights import Checkpoint, load_into


def candidate_of(
    referee: Qwen2ForCausalLM, ops: Ops = EAGER, config: QwenConfig | None = None
) -> QwenForCausalLM:
    """augur's model with a copy of the referee's weights, in the referee's dtype.

    Args:
        referee: whose config and weights are taken.
        ops: to compute with.
        config: to build from, instead of the referee's.
    """
    candidate = QwenForCausalLM(config or QwenConfig.from_dict(referee.config.to_dict()), ops)
    candidate.to(referee.dtype).load_state_dict(referee.state_dict())
    return candidate


def with_ops(candidate: QwenForCausalLM, ops: Ops) -> QwenForCausalLM:
    """The same weights, not copied, computed with other ops."""
    with torch.device("meta"):
        other = QwenForCausalLM(candidate.config, ops)
    other.load_state_dict(candidate.state_dict(), assign=True)
    return other


def load_candidate(folder: Path, dtype: torch.dtype) -> QwenForCausalLM:
    """A checkpoint folder as augur opens it."""
    checkpoint = Checkpoint(folder)
    with torch.device("meta"):
        candidate = QwenForCausalLM(QwenConfig.from_dict(checkpoint.config))
    load_into(candidate, checkpoint, dtype=dtype, device="cpu")
    return candidate


@torch.inference_mode()
def candidate_logits(
    candidate: QwenForCausalLM,
    token_ids: Tensor,
    sizes: Sequence[int] | None = None,
    *,
    logits_to_keep: int | None = None,
) -> Tensor:
    """Logits of `token_ids` `[batch, length]`, fed in pieces of `sizes` tokens through one cache.

    Without `sizes`, all at once and without a cache. `logits_to_keep` counts in each piece.
    """
    if sizes is None:
        return candidate(token_ids, logits_to_keep=logits_to_keep)
    batch, length = token_ids.shape
    # More room than needed: the cache's memory is then never the contiguous tensor that the
    # referee's is.
    cache = StaticKVCache.for_model(candidate, length + 3, batch_size=batch)
    pieces = [
        candidate(piece, cache=cache, logits_to_keep=logits_to_keep)
        for piece in token_ids.split(list(sizes), dim=1)
    ]
    return torch.cat(pieces, dim=1)
