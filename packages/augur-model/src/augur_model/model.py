"""The whole network: token ids to logits."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from augur_model.cache import KVCache
from augur_model.config import QwenConfig
from augur_model.errors import ModelInputError
from augur_model.layers import DecoderLayer, Linear, RMSNorm, RotaryEmbedding
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
        hidden_states: Tensor = self.embed_tokens(token_ids)
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
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # `to_empty` makes one parameter for each name, and would untie the two.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._tie_embeddings()
        return self

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights, the hidden states and the logits are made of."""
        return self.lm_head.weight.dtype

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        logits_to_keep: int | None = None,
    ) -> Tensor:
        """Logits of the token that follows each position.

        Args:
            token_ids: `[batch, length]`, int64 or int32, each in `0 .. vocab_size - 1`.
            positions: `[batch, length]` or `[1, length]`, integer: what the rotation goes by.
                Left out: the tokens follow what the cache holds, from 0 without one.
            mask: bool, broadcasts to `[batch, num_heads, length, cached + length]`, true where
                a token may look. Left out: causal.
            cache: holds earlier tokens' keys and values and takes the new ones'.
            logits_to_keep: logits for this many last positions only; 0 fills the cache and
                computes none. Left out: all positions.

        Returns:
            `[batch, kept, vocab_size]`, in the model's dtype.

        Raises:
            ModelInputError: shapes or dtypes do not fit.
        """
        past_length = 0 if cache is None else cache.length
        length = _checked_length(token_ids)
        if positions is None:
            positions = torch.arange(past_length, past_length + length, device=token_ids.device)
            positions = positions[None]
        _check_positions(positions, token_ids)
        heads = self.config.num_attention_heads
        _check_mask(mask, (token_ids.shape[0], heads, length, past_length + length))
        kept = length if logits_to_keep is None else logits_to_keep
        if not 0 <= kept <= length:
            raise ModelInputError(f"logits_to_keep is {kept}, expected 0 to {length} (the length)")

        hidden_states = self.model(token_ids, positions, mask, cache, self.ops)
        if cache is not None:
            cache.advance(length)
        # Sliced before the head: the logits of a long prompt would take gigabytes.
        logits: Tensor = self.lm_head(hidden_states[:, length - kept :], self.ops)
        return logits


def _checked_length(token_ids: Tensor) -> int:
    if token_ids.dtype not in (torch.int64, torch.int32) or token_ids.dim() != 2:
        raise ModelInputError(
            f"token_ids is {token_ids.dtype} {list(token_ids.shape)}, "
            "expected int64 or int32 [batch, length]"
        )
    if token_ids.numel() == 0:
        raise ModelInputError("token_ids is empty; a forward pass needs at least one token")
    return token_ids.shape[1]


def _check_positions(positions: Tensor, token_ids: Tensor) -> None:
    batch, length = token_ids.shape
    integer = positions.dtype in (torch.int64, torch.int32)
    if not integer or positions.shape not in ((batch, length), (1, length)):
        raise ModelInputError(
            f"positions is {positions.dtype} {list(positions.shape)}, "
            f"expected int64 or int32 [{batch}, {length}] or [1, {length}]"
        )


def _check_mask(mask: Tensor | None, expected: tuple[int, int, int, int]) -> None:
    if mask is None:
        return
    pairs = zip(reversed(mask.shape), reversed(expected), strict=False)
    broadcasts = 2 <= mask.dim() <= 4 and all(size in (1, wanted) for size, wanted in pairs)
    if mask.dtype != torch.bool or not broadcasts:
        raise ModelInputError(
            f"mask is {mask.dtype} {list(mask.shape)}, expected bool that broadcasts to "
            f"{list(expected)} [batch, num_heads, length, cached + length]"
        )
