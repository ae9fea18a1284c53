"""From logits to the next token."""

from collections.abc import Callable

from torch import Tensor

from augur_gen.drawing import check_choice

Sampler = Callable[[Tensor], Tensor]
"""`[batch, vocab_size]` logits in the model's dtype -> `[batch]` int64 token ids."""


def greedy(logits: Tensor) -> Tensor:
    """The id with the largest raw logit; the lowest such id where several tie.

    No penalty or temperature of a checkpoint's generation_config plays a part.

    Args:
        logits: `[batch, vocab_size]`.

    Returns:
        `[batch]`, int64.

    Raises:
        GenerationError: a row has a NaN or +inf, or nothing but -inf.
    """
    logits = logits.float()
    token_ids = logits.argmax(dim=-1)
    check_choice(logits.gather(-1, token_ids[:, None]))  # argmax finds a NaN if there is one
    return token_ids
