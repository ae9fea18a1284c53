"""What a forward pass is given, checked before anything is computed, and its defaults."""

import operator
from collections.abc import Sequence

import torch
from torch import Tensor

from augur_model.cache import KVCache
from augur_model.errors import ModelInputError

_INTEGERS = (torch.int64, torch.int32)


def check_token_ids(token_ids: Tensor) -> None:
    """Raise `ModelInputError` if they are no integers, `[batch, length]`, one at the least."""
    if token_ids.dtype not in _INTEGERS or token_ids.dim() != 2:
        raise ModelInputError(
            f"token_ids is {token_ids.dtype} {list(token_ids.shape)}, "
            "expected int64 or int32 [batch, length]"
        )
    if token_ids.numel() == 0:
        raise ModelInputError("token_ids is empty; a forward pass needs at least one token")


def checked_num_tokens(num_tokens: Sequence[int] | None, token_ids: Tensor) -> tuple[int, ...]:
    """How many tokens of each row are real: all of them by default.

    Raises:
        ModelInputError: there is not one number for each row, from 0 to the length, or all are 0.
    """
    batch, length = token_ids.shape
    if num_tokens is None:
        return (length,) * batch
    counts = tuple(map(operator.index, num_tokens))
    if len(counts) != batch or not 0 < max(counts) <= length or min(counts) < 0:
        raise ModelInputError(
            f"num_tokens is {list(counts)}, expected {batch} numbers, one for each row, from 0 to "
            f"{length} (the length), one above 0"
        )
    return counts


def checked_positions(positions: Tensor | None, token_ids: Tensor, cache: KVCache | None) -> Tensor:
    """`[batch, length]` or `[1, length]`, int64 or int32; by default after what the cache holds.

    Raises:
        ModelInputError: shape or dtype do not fit, or the cache has other rows.
    """
    batch, length = token_ids.shape
    lengths = (0,) if cache is None else cache.lengths
    if len(set(lengths)) > 1 and len(lengths) != batch:
        raise ModelInputError(f"token_ids has {batch} rows, and the cache has {len(lengths)}")
    if positions is None:
        starts = lengths[:1] if len(set(lengths)) == 1 else lengths
        past = torch.tensor(starts, device=token_ids.device)
        return past[:, None] + torch.arange(length, device=token_ids.device)
    if positions.dtype not in _INTEGERS or positions.shape not in ((batch, length), (1, length)):
        raise ModelInputError(
            f"positions is {positions.dtype} {list(positions.shape)}, "
            f"expected int64 or int32 [{batch}, {length}] or [1, {length}]"
        )
    return positions


def check_mask(mask: Tensor | None, expected: tuple[int, int, int, int]) -> None:
    """Raise `ModelInputError` if it is not bool or does not broadcast to what is expected."""
    if mask is None:
        return
    pairs = zip(reversed(mask.shape), reversed(expected), strict=False)
    broadcasts = 2 <= mask.dim() <= 4 and all(size in (1, wanted) for size, wanted in pairs)
    if mask.dtype != torch.bool or not broadcasts:
        raise ModelInputError(
            f"mask is {mask.dtype} {list(mask.shape)}, expected bool that broadcasts to "
            f"{list(expected)} [batch, num_heads, length, cached + length]"
        )


def kept_positions(
    logits_to_keep: int | Tensor | None, length: int, num_tokens: tuple[int, ...]
) -> slice | Tensor:
    """Which positions get logits: a slice of all rows', or an index `[kept]` or `[batch, kept]`.

    Raises:
        ModelInputError: more are asked for than there are, or an index is out of range.
    """
    if isinstance(logits_to_keep, Tensor):
        _check_index(logits_to_keep, length, len(num_tokens))
        return logits_to_keep
    if logits_to_keep is None:
        return slice(None)
    fewest = min(num_tokens)
    if not 0 <= logits_to_keep <= fewest:
        raise ModelInputError(
            f"logits_to_keep is {logits_to_keep}, expected 0 to {fewest} (the length)"
        )
    if fewest == length or logits_to_keep == 0:
        return slice(length - logits_to_keep, length)
    return torch.tensor(num_tokens)[:, None] + torch.arange(-logits_to_keep, 0)


def _check_index(index: Tensor, length: int, batch: int) -> None:
    shaped = index.dim() == 1 or (index.dim() == 2 and index.shape[0] == batch)
    if index.dtype not in _INTEGERS or not shaped:
        raise ModelInputError(
            f"logits_to_keep is {index.dtype} {list(index.shape)}, expected a number, or int64 or "
            f"int32 [kept] or [{batch}, kept]"
        )
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < length:
        raise ModelInputError(
            f"logits_to_keep names positions {int(index.min())} to {int(index.max())}, expected "
            f"them in 0 to {length - 1}"
        )


def at_positions(hidden_states: Tensor, kept: slice | Tensor) -> Tensor:
    """`[batch, length, hidden] -> [batch, kept, hidden]`."""
    if isinstance(kept, slice):
        return hidden_states[:, kept]
    kept = kept.to(hidden_states.device)
    if kept.dim() == 1:
        return hidden_states[:, kept]
    return hidden_states.take_along_dim(kept[..., None].long(), dim=1)
