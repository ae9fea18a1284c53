"""How likely a chosen token was, and what else was likely."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class TokenLogprobs:
    """Natural logarithms of probabilities by the model itself: no bias, penalty or temperature.

    Attributes:
        token_id: the token that was chosen.
        logprob: its log-probability; -inf where the model excludes it.
        top: the most likely tokens, likeliest first, as (token id, log-probability). The chosen one
            is among them only if it is one of them.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def token_logprobs(logits: Tensor, token_id: int, num_top: int) -> TokenLogprobs:
    """Log-softmax in float32.

    Args:
        logits: `[vocab_size]`, as the model gave them, of any float dtype.
        token_id: the chosen token.
        num_top: how many of the most likely tokens to report; more than there are means all.
    """
    logprobs = logits.float().log_softmax(dim=-1)
    values, token_ids = logprobs.topk(min(num_top, len(logprobs)))
    top = tuple(zip(token_ids.tolist(), values.tolist(), strict=True))
    return TokenLogprobs(token_id, float(logprobs[token_id]), top)
