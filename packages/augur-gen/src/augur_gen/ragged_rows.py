"""One forward pass over rows of different lengths: where it writes, and who may look where."""

from collections.abc import Sequence

import torch
from torch import Tensor


class RaggedPass:
    """Made once for a pass, and used by every layer.

    Row r holds `lengths[r]` tokens. Of the `num_columns` tokens that are fed, its first
    `num_tokens[r]` are real and go into the places after those; what follows is padding. A padded
    token looks where the last real one of its row does, so that it looks at something.

    Args:
        lengths: tokens that each row holds.
        num_tokens: real tokens that each row brings.
        num_columns: tokens that are fed, padding included.
        device: of the tensors.

    Attributes:
        rows: `[total]`, int64, the row of each real token.
        columns: `[total]`, which of the tokens fed it is.
        places: `[total]`, where in its row of the cache it goes.
        num_places: places of the longest row once this pass is stored.
        is_causal: whether every real token sees the tokens before its own column, and no mask has
            to say so: rows start at one place, and only padding on the right sets them apart.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        num_tokens: Sequence[int],
        num_columns: int,
        device: torch.device,
    ) -> None:
        starts, counts = torch.tensor(lengths)[:, None], torch.tensor(num_tokens)[:, None]
        columns = torch.arange(num_columns)
        rows, columns_of_real = (columns < counts).nonzero(as_tuple=True)
        self.rows, self.columns = rows.to(device), columns_of_real.to(device)
        self.places = (starts[rows, 0] + columns_of_real).to(device)
        self.num_places = int((starts + counts).max())
        self.is_causal = len(set(lengths)) == 1 and max(num_tokens) == num_columns
        last_seen = torch.minimum(columns, counts - 1).add(starts).clamp(min=0)
        self._last_seen = last_seen[:, None, :, None].to(device)
        self._masks: dict[int | None, Tensor] = {}

    def mask(self, window: int | None) -> Tensor:
        """`[batch, 1, num_columns, num_places]`, bool: true where a token may look."""
        if window not in self._masks:
            places = torch.arange(self.num_places, device=self._last_seen.device)
            seen = places <= self._last_seen
            if window is not None:
                seen &= places > self._last_seen - window
            self._masks[window] = seen
        return self._masks[window]
