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
from dataclasses import dataclass

import torch

from augur_model import QwenConfig, QwenForCausalLM


@dataclass(frozen=True)
class Work:
    """What one pass takes at the least.

    Attributes:
        num_bytes: read from memory.
        flops: floating-point operations.
    """

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
        self.config = config
        self.num_parameters = sum(weight.numel() for weight in weights)
        self.num_read = sum(weight.numel() for weight in read)
        self.num_head = head.numel()
        self.num_block_matrices = sum(
            weight.numel() for weight in weights - {embedding, head} if weight.dim() == 2
        )

    def cache_bytes(self, num_tokens: int, dtype: torch.dtype) -> int:
        """Keys and values of that many tokens, all layers."""
        layers = self.config.num_hidden_layers
        return 2 * layers * self._key_value_width * num_tokens * dtype.itemsize

    def _attended_tokens(self, contexts: range) -> float:
        """Tokens that one query looks at, all layers together, on average over those contexts."""
        config = self.config
        windows = config.attention_windows or (None,) * config.num_hidden_layers
        total = sum(
            times * sum(context if window is None else min(context, window) for context in contexts)
            for window, times in Counter(windows).items()
        )
        return total / len(contexts)

    def prefill_work(
        self, num_prompt_tokens: int, dtype: torch.dtype, *, all_logits: bool = False
    ) -> Work:
        """A whole prompt in one pass.

        Args:
            num_prompt_tokens: its length.
            dtype: of weights and cache.
            all_logits: whether every position's logits are wanted, not the last one's alone.
        """
        # Token i looks at i tokens, itself among them.
        attended = self._attended_tokens(range(1, num_prompt_tokens + 1))
        heads = num_prompt_tokens if all_logits else 1
        return Work(
            num_bytes=self._weight_bytes(num_prompt_tokens, dtype)
            + self.cache_bytes(num_prompt_tokens, dtype),
            flops=num_prompt_tokens * self._block_flops(attended) + heads * 2 * self.num_head,
        )

    def decode_work(self, num_prompt_tokens: int, num_new_tokens: int, dtype: torch.dtype) -> Work:
        """One decoded token, on average over all after the first.

        Args:
            num_prompt_tokens: length of the prompt.
            num_new_tokens: tokens generated, at least 2.
            dtype: of weights and cache.
        """
        # The step that makes token i + 1 of the new ones looks at the prompt and i new tokens.
        attended = self._attended_tokens(
            range(num_prompt_tokens + 1, num_prompt_tokens + num_new_tokens)
        )
        cache = 2 * self._key_value_width * attended * dtype.itemsize
        return Work(
            num_bytes=self._weight_bytes(1, dtype) + cache,
            flops=self._block_flops(attended) + 2 * self.num_head,
        )

    def _weight_bytes(self, num_tokens: int, dtype: torch.dtype) -> int:
        tied = self.config.tie_word_embeddings
        num_rows = 0 if tied else num_tokens * self.config.hidden_size
        return (self.num_read + num_rows) * dtype.itemsize

    def _block_flops(self, attended_tokens: float) -> float:
        query_width = self.config.num_attention_heads * self.config.head_dim
        return 2 * self.num_block_matrices + 4 * query_width * attended_tokens

    @property
    def _key_value_width(self) -> int:
        return self.config.num_key_value_heads * self.config.head_dim
