"""From logits to the next token: the largest, or one drawn."""

from collections.abc import Callable

import torch
from torch import Tensor

from augur_gen.errors import GenerationError

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


def draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw from the softmax of each row by inverting its cumulative distribution.

    One random number a row decides, so the token is the same whether or not those that cannot be
    drawn are among the logits. Summed in float64: no token is too unlikely to get its share, and
    none of probability 0 is ever drawn.

    Args:
        logits: `[batch, n]`, float32; -inf excludes a token.
        uniforms: `[batch]`, float64, from 0 up to but not 1.

    Returns:
        `[batch]`, int64: an index into the row.

    Raises:
        GenerationError: see `check_choice`.
    """
    check_choice(logits)
    weights = (logits - logits.amax(dim=-1, keepdim=True)).exp()
    if weights.device.type == "mps":  # it has no float64
        weights = weights.cpu()
    up_to_each = weights.cumsum(dim=-1, dtype=torch.float64)
    # A float64 below 1 times the total rounds to below the total: some token's sum exceeds it.
    target = uniforms.to(up_to_each.device)[:, None] * up_to_each[:, -1:]
    return torch.searchsorted(up_to_each, target, right=True)[:, 0].to(logits.device)


def check_choice(logits: Tensor) -> None:
    """Raise `GenerationError` if a row of `logits` has a NaN or +inf, or nothing but -inf."""
    largest = logits.amax(dim=-1)
    if not largest.isfinite().all():
        raise GenerationError(
            f"no token can be chosen: the largest logit of each row is {largest.tolist()}, "
            "expected a finite number. Weights that are not finite, or a dtype too narrow for this "
            "model, do that: check the checkpoint's weights, or compute in bfloat16 or float32"
        )
