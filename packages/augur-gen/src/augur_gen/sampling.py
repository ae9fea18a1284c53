"""From logits to the next token."""

from collections.abc import Callable

from torch import Tensor

Sampler = Callable[[Tensor], Tensor]
"""`[batch, vocab_size]` logits in the model's dtype -> `[batch]` int64 token ids."""


def greedy(logits: Tensor) -> Tensor:
    """The id with the largest raw logit; the lowest such id where several tie.

    No penalty or temperature of a checkpoint's generation_config plays a part.

    Args:
        logits: `[batch, vocab_size]`.

    Returns:
        `[batch]`, int64.
    """
    return logits.float().argmax(dim=-1)
