"""The whole network: token ids to logits."""

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from augur_model.cache import KVCache
from augur_model.config import QwenConfig
from augur_model.layers import DecoderLayer, Linear, RMSNorm, RotaryEmbedding
from augur_model.model_inputs import (
    at_positions,
    check_mask,
    check_token_ids,
    checked_num_tokens,
    checked_positions,
    kept_positions,
)
from augur_model.ops.table import EAGER, Ops


class Embedding(nn.Module):
    """Rows of `weight` `[vocab_size, hidden_size]`, one for each token id."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size), requires_grad=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        """`[batch, length] -> [batch, length, hidden]`."""
        return functional.embedding(token_ids, self.weight)


class QwenDecoder(nn.Module):
    """Embedding, decoder blocks and final norm: the `model.` part of a checkpoint's names."""

    def __init__(self, config: QwenConfig) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(config, index) for index in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = RotaryEmbedding(config)

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: KVCache | None,
        ops: Ops,
    ) -> Tensor:
        """`[batch, length]` ids -> `[batch, length, hidden]` normalised hidden states."""
        # A row that is stored in a narrower dtype is computed with in the model's.
        hidden_states: Tensor = self.embed_tokens(token_ids).to(self.norm.weight.dtype)
        cos, sin = self.rotary_emb(positions, hidden_states.dtype)
        for layer in self.layers:
            hidden_states = layer(hidden_states, cos, sin, mask, cache, ops)
        normed: Tensor = self.norm(hidden_states, ops)
        return normed


class QwenForCausalLM(nn.Module):
    """A Qwen decoder with its language-model head.

    Parameters are uninitialised; fill them from a checkpoint. Build it under
    `torch.device("meta")` to take no memory until then. Nothing of a sequence is kept here, so
    any number of sequences, each with its own cache, can share one model.

    Args:
        config: shapes and constants.
        ops: the implementations to compute with; may be replaced at any time.
    """

    def __init__(self, config: QwenConfig, ops: Ops = EAGER) -> None:
        super().__init__()
        self.config = config
        self.ops = ops
        self.model = QwenDecoder(config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        self._tie_embeddings()

    def _tie_embeddings(self) -> None:
        # A head that was replaced holds its own matrix, in its own way.
        if self.config.tie_word_embeddings and type(self.lm_head) is Linear:
            self.lm_head.weight = self.model.embed_tokens.weight

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # `to_empty` makes one parameter for each name, and would untie the two.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._tie_embeddings()
        return self

    @property
    def device(self) -> torch.device:
        """Where the weights are: as `dtype`, read off the last norm."""
        return self.model.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What is computed in: the dtype of hidden states, keys, values and logits.

        Read off the last norm, whose weight is a plain vector of numbers in every checkpoint: a
        matrix may be quantised, a norm never is. So it follows loading and `to` by itself.
        """
        return self.model.norm.weight.dtype

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        num_tokens: Sequence[int] | None = None,
        logits_to_keep: int | Tensor | None = None,
    ) -> Tensor:
        """Logits of the token that follows each position.

        Args:
            token_ids: `[batch, length]`, int64 or int32, each in `0 .. vocab_size - 1`.
            positions: `[batch, length]` or `[1, length]`, integer: what the rotation goes by.
                Left out: each row's tokens follow what the cache holds of it, from 0 without one.
            mask: bool, broadcasts to `[batch, num_heads, length, cached + length]`, true where
                a token may look; where rows of the cache differ, the last is the length of the
                longest after this pass. Left out: each token sees its own row up to itself.
            cache: holds earlier tokens' keys and values and takes the new ones'.
            num_tokens: how many tokens of each row are real; what follows on the right is padding,
                which no real token sees and no cache stores. Left out: all are.
            logits_to_keep: logits for this many last positions of each row only, padding left out;
                0 fills the cache and computes none. Or the positions themselves, integer: `[kept]`,
                or `[batch, kept]` for each row its own. Left out: all positions.

        Returns:
            `[batch, kept, vocab_size]`, in the model's dtype.

        Raises:
            ModelInputError: shapes, dtypes or numbers do not fit.
        """
        check_token_ids(token_ids)
        batch, length = token_ids.shape
        counts = checked_num_tokens(num_tokens, token_ids)
        positions = checked_positions(positions, token_ids, cache)
        kept = kept_positions(logits_to_keep, length, counts)
        num_keys = length
        if cache is not None:
            num_keys = max(map(sum, zip(cache.lengths, counts, strict=False)))
        check_mask(mask, (batch, self.config.num_attention_heads, length, num_keys))

        fed = length if num_tokens is None else counts
        if cache is not None:
            cache.begin(fed)
        hidden_states = self.model(token_ids, positions, mask, cache, self.ops)
        if cache is not None:
            cache.advance(fed)
        # Chosen before the head: the logits of a long prompt would take gigabytes.
        logits: Tensor = self.lm_head(at_positions(hidden_states, kept), self.ops)
        return logits
