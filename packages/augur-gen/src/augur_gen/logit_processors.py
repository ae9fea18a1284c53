"""One formula each: float32 logits in, new float32 logits out, the input left as it was.

Where transformers has a processor of the kind, the result is the same to the last bit. `-inf` marks
a token that cannot be chosen, and stays `-inf` through all of them.
"""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from augur_gen.errors import GenerationError


def apply_logit_bias(logits: Tensor, logit_bias: Mapping[int, float]) -> Tensor:
    """Add a number to the logits of some tokens (transformers: SequenceBiasLogitsProcessor).

    Args:
        logits: `[batch, vocab_size]`.
        logit_bias: token id to what is added; the same for every row.

    Raises:
        GenerationError: an id is outside the vocabulary.
    """
    vocab_size = logits.shape[-1]
    for token_id in logit_bias:
        if not 0 <= token_id < vocab_size:
            raise GenerationError(
                f"logit_bias names token {token_id}; the logits are of tokens 0 to {vocab_size - 1}"
            )
    token_ids = torch.tensor(list(logit_bias), dtype=torch.int64, device=logits.device)
    bias = torch.tensor(list(logit_bias.values()), dtype=logits.dtype, device=logits.device)
    return logits.index_copy(-1, token_ids, logits[:, token_ids] + bias)


def apply_repetition_penalty(
    logits: Tensor, token_ids: Tensor, penalty: float, mask: Tensor | None = None
) -> Tensor:
    """Make tokens that are there already less likely, for a penalty above 1.

    A positive logit is divided by the penalty and a negative one multiplied, however often the
    token is there (Keskar et al. 2019; transformers: RepetitionPenaltyLogitsProcessor).

    Args:
        logits: `[batch, vocab_size]`.
        token_ids: `[batch, length]`, integer: prompt and generated tokens.
        penalty: above 0.
        mask: `[batch, length]`, bool: False where `token_ids` is padding. Left out: all count.
    """
    rows, seen_ids = _occurrences(token_ids, mask)
    seen = logits[rows, seen_ids]
    penalised = torch.where(seen < 0, seen * penalty, seen / penalty)
    # A token that occurs twice is written twice, with the same value.
    return logits.index_put((rows, seen_ids), penalised)


def apply_presence_penalty(
    logits: Tensor, generated_ids: Tensor, penalty: float, mask: Tensor | None = None
) -> Tensor:
    """Subtract `penalty` from the logit of every token that was generated (OpenAI's API, vLLM).

    Args:
        logits: `[batch, vocab_size]`.
        generated_ids: `[batch, length]`, integer: the prompt left out.
        penalty: any finite number.
        mask: `[batch, length]`, bool: False where `generated_ids` is padding.
    """
    return logits - penalty * (_counts(logits, generated_ids, mask) > 0).to(logits.dtype)


def apply_frequency_penalty(
    logits: Tensor, generated_ids: Tensor, penalty: float, mask: Tensor | None = None
) -> Tensor:
    """Subtract `penalty` times how often a token was generated (OpenAI's API, vLLM).

    Args:
        logits: `[batch, vocab_size]`.
        generated_ids: `[batch, length]`, integer: the prompt left out.
        penalty: any finite number.
        mask: `[batch, length]`, bool: False where `generated_ids` is padding.
    """
    return logits - penalty * _counts(logits, generated_ids, mask)


def suppress_tokens(logits: Tensor, token_ids: Iterable[int]) -> Tensor:
    """Forbid some tokens (transformers: MinNewTokensLengthLogitsProcessor, while it acts).

    Args:
        logits: `[batch, vocab_size]`, of any dtype.
        token_ids: ids outside the vocabulary cannot be chosen anyway, and are passed over.
    """
    inside = sorted(token_id for token_id in token_ids if 0 <= token_id < logits.shape[-1])
    index = torch.tensor(inside, dtype=torch.int64, device=logits.device)
    return logits.index_fill(-1, index, -math.inf)


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide by `temperature`, above 0 (transformers: TemperatureLogitsWarper)."""
    return logits / temperature


def apply_top_k(logits: Tensor, top_k: int) -> Tensor:
    """Keep the k largest logits, and all that equal the k-th (transformers: TopKLogitsWarper).

    Args:
        logits: `[batch, vocab_size]`.
        top_k: 1 or more; more than the vocabulary keeps all.
    """
    kth_largest = logits.topk(min(top_k, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < kth_largest, -math.inf)


def apply_top_p(logits: Tensor, top_p: float) -> Tensor:
    """Keep the fewest most likely tokens that together exceed `top_p`, at least one.

    Nucleus sampling (Holtzman et al. 2020; transformers: TopPLogitsWarper). Summed from the least
    likely up: a token goes if it and all below it come to `1 - top_p` or less. Of equal logits at
    the cut, those go that PyTorch's sort happens to put first; see `apply_top_p_stably`.

    Args:
        logits: `[batch, vocab_size]`.
        top_p: from 0 to 1.
    """
    ascending, order = logits.sort(dim=-1)
    removed = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
    removed[..., -1] = False
    return logits.masked_fill(removed.scatter(-1, order, removed), -math.inf)


def apply_min_p(logits: Tensor, min_p: float) -> Tensor:
    """Keep tokens at least `min_p` times as likely as the likeliest.

    Nguyen et al. 2024; transformers: MinPLogitsWarper.

    Args:
        logits: `[batch, vocab_size]`.
        min_p: from 0 to 1.
    """
    probabilities = logits.softmax(dim=-1)
    limit = min_p * probabilities.amax(dim=-1, keepdim=True)
    return logits.masked_fill(probabilities < limit, -math.inf)


def _occurrences(token_ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Row and token id of every token that counts, `[n]` each."""
    if mask is None:
        mask = torch.ones_like(token_ids, dtype=torch.bool)
    rows, columns = mask.nonzero(as_tuple=True)
    return rows, token_ids[rows, columns]


def _counts(logits: Tensor, token_ids: Tensor, mask: Tensor | None) -> Tensor:
    """`[batch, vocab_size]`: how often each token occurs in its row."""
    rows, seen_ids = _occurrences(token_ids, mask)
    ones = torch.ones(len(rows), dtype=logits.dtype, device=logits.device)
    return torch.zeros_like(logits).index_put((rows, seen_ids), ones, accumulate=True)
