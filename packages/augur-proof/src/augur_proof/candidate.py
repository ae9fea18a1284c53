"""What is on trial: a network, its ops, how it is stepped, and the name that reports call it by."""

from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from augur_gen import CachedSteps, Generation, StaticKVCache, Steps, StopConditions, greedy
from augur_model import EAGER, Ops, QwenConfig, QwenForCausalLM
from augur_proof.answer import GreedyRun
from augur_proof.guarded_ops import guard_ops
from augur_weights import Checkpoint, load_into

NewSteps = Callable[[QwenForCausalLM, int], Steps]
"""A network, and how many tokens a sequence may come to -> how one new sequence gets its logits."""


def cached(model: QwenForCausalLM, capacity: int) -> Steps:
    """The prompt at once, then token by token, over a preallocated cache."""
    return CachedSteps(model, StaticKVCache.for_model(model, capacity))


def _widened(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def in_float32(*inputs: Any) -> Tensor:
        return compute(*(wide(one) for one in inputs))

    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value

    return in_float32


_IN_FLOAT32 = Ops(**{field.name: _widened(getattr(EAGER, field.name)) for field in fields(Ops)})


@dataclass(frozen=True)
class Candidate:
    """A network on trial.

    Attributes:
        model: with the ops that it computes with.
        name: of those ops or of this path. One called "eager" has to equal the referee to the bit.
        new_steps: how a sequence is stepped: chunks, a compiled or fused decode step, no cache.
    """

    model: QwenForCausalLM
    name: str = "eager"
    new_steps: NewSteps = cached

    @classmethod
    def load(
        cls, folder: Path, *, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> "Candidate":
        """Open a checkpoint folder, to compute with the reference ops.

        Raises:
            WeightsError, ModelError: it is wrong, or not supported.
        """
        checkpoint = Checkpoint(folder)
        with torch.device("meta"):
            model = QwenForCausalLM(QwenConfig.from_dict(checkpoint.config))
        load_into(model, checkpoint, dtype=dtype, device=device)
        return cls(model)

    def with_ops(self, ops: Ops, name: str = "on trial") -> "Candidate":
        """The same weights, not copied, computed with a table that is on trial.

        What its ops give is looked at, so that one that breaks is told by its name and its place:
        a forward pass then raises `OpFailedError`.
        """
        shared = (*self.model.parameters(), *self.model.buffers(), self.model.ops)
        model = deepcopy(self.model, {id(one): one for one in shared})
        guard_ops(model, ops)
        return replace(self, model=model, name=name)

    @torch.inference_mode()
    def logits(
        self,
        token_ids: Tensor,
        sizes: Sequence[int] | None = None,
        *,
        logits_to_keep: int | None = None,
    ) -> Tensor:
        """All positions' logits, `[batch, length, vocab_size]`.

        Args:
            token_ids: `[batch, length]`.
            sizes: feed pieces of so many tokens through one cache. Left out: all at once, without.
            logits_to_keep: for this many last positions of each piece alone; None keeps all.
        """
        if sizes is None:
            logits: Tensor = self.model(token_ids, logits_to_keep=logits_to_keep)
            return logits
        batch, length = token_ids.shape
        # More room than needed: the cache's memory is then never the contiguous tensor that the
        # referee's is.
        cache = StaticKVCache.for_model(self.model, length + 3, batch_size=batch)
        pieces = [
            self.model(piece, cache=cache, logits_to_keep=logits_to_keep)
            for piece in torch.split(token_ids, list(sizes), dim=1)
        ]
        return torch.cat(pieces, dim=1)

    def logits_in_float32(self, token_ids: Tensor, *, logits_to_keep: int) -> Tensor:
        """As `logits`, of the reference ops on the same, rounded weights, computed in float32."""
        ops = self.model.ops
        self.model.ops = _IN_FLOAT32
        try:
            return self.logits(token_ids, logits_to_keep=logits_to_keep)
        finally:
            self.model.ops = ops

    def greedy(
        self, input_ids: Sequence[int], max_new_tokens: int, eos_token_ids: Collection[int] = ()
    ) -> GreedyRun:
        """Continue with the raw argmax, through the steps on trial and the loop that users run.

        Raises:
            GenerationError: there are no ids, or a token cannot be chosen.
        """
        rows: list[Tensor] = []

        def keep_and_choose(logits: Tensor) -> Tensor:
            rows.append(logits[0].cpu())
            return greedy(logits)

        generation = Generation(
            self.new_steps(self.model, len(input_ids) + max_new_tokens),
            input_ids,
            StopConditions(max_new_tokens, frozenset(eos_token_ids)),
            device=self.model.device,
            sampler=keep_and_choose,
        )
        return GreedyRun(generation.run().token_ids, torch.stack(rows))
