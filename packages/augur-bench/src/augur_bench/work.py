"""How much a pass must read and compute at the least: what the hardware's limits are set against.

It belongs to the model, the dtype and the lengths, not to a rung: a rung that does more than this
gets nearer to no limit by it. Counted are

- bytes read: every weight once, of an untied embedding only the rows of the tokens fed (a tied one
  is read whole, as the head), and the keys and values of all tokens that are looked at, which
  a sliding window cuts off;
- FLOPs: 2 for each weight of a matrix and token, and 4 for each query head's dimension, key and
  token in attention (one multiply and add for the score, one for the value). Only the last
  position of a prompt needs the head. Norms, rotation, softmax and activations are left out: they
  come to less than a hundredth.
"""

from collections import Counter
from typing import NamedTuple

import torch

from augur_gen import StaticKVCache
from augur_model import QwenConfig, QwenForCausalLM


class Work(NamedTuple):
    """Of one pass: bytes read from memory, and floating-point operations."""

    num_bytes: float
    flops: float


class ModelSize:
    """Numbers of weights, counted on the network itself so that no kind of layer is forgotten.

    Args:
        config: of the model.
    """

    def __init__(self, config: QwenConfig) -> None:
        with torch.device("meta"):
            model = QwenForCausalLM(config)
        # named_parameters gives a tied matrix once.
        weights = {parameter for _, parameter in model.named_parameters()}
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        read = weights if config.tie_word_embeddings else weights - {embedding}
        blocks = weights - {embedding, head}
        self.config = config
        self.num_parameters = sum(weight.numel() for weight in weights)
        self.num_read = sum(weight.numel() for weight in read)
        self.num_head = head.numel()
        self.num_block_matrices = sum(one.numel() for one in blocks if one.dim() == 2)

    def cache_bytes(self, num_tokens: int, dtype: torch.dtype) -> int:
        """Keys and values of that many tokens, all layers."""
        return StaticKVCache.num_bytes_of(self.config, num_tokens, dtype=dtype)

    def least_work(
        self, num_prompt_tokens: int, num_new_tokens: int, dtype: torch.dtype
    ) -> dict[str, Work | None]:
        """Of "prefill", the whole prompt in one pass, and of "decode", one token more.

        That is on average over all new tokens after the first; None where there is one alone.
        """
        # Token i looks at i tokens, itself among them.
        attended = self._attended_tokens(range(1, num_prompt_tokens + 1))
        prefill = Work(
            num_bytes=self._weight_bytes(num_prompt_tokens, dtype)
            + self.cache_bytes(num_prompt_tokens, dtype),
            flops=num_prompt_tokens * self._block_flops(attended) + 2 * self.num_head,
        )
        if num_new_tokens == 1:
            return {"prefill": prefill, "decode": None}
        # The step that makes token i + 1 of the new ones looks at the prompt and i new tokens.
        attended = self._attended_tokens(
            range(num_prompt_tokens + 1, num_prompt_tokens + num_new_tokens)
        )
        cached = 2 * self.config.num_key_value_heads * self.config.head_dim * attended
        decode = Work(
            num_bytes=self._weight_bytes(1, dtype) + cached * dtype.itemsize,
            flops=self._block_flops(attended) + 2 * self.num_head,
        )
        return {"prefill": prefill, "decode": decode}

    def _attended_tokens(self, contexts: range) -> float:
        """Tokens that one query looks at, all layers together, on average over those contexts."""
        config = self.config
        windows = config.attention_windows or (None,) * config.num_hidden_layers
        total = sum(
            times * sum(context if window is None else min(context, window) for context in contexts)
            for window, times in Counter(windows).items()
        )
        return total / len(contexts)

    def _weight_bytes(self, num_tokens: int, dtype: torch.dtype) -> int:
        tied = self.config.tie_word_embeddings
        num_rows = 0 if tied else num_tokens * self.config.hidden_size
        return (self.num_read + num_rows) * dtype.itemsize

    def _block_flops(self, attended_tokens: float) -> float:
        query_width = self.config.num_attention_heads * self.config.head_dim
        return 2 * self.num_block_matrices + 4 * query_width * attended_tokens
