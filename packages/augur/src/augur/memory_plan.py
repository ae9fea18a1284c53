"""What a model takes, told from its config alone: parameters, weights, cache."""

from dataclasses import dataclass
from typing import Any

import torch

from augur.devices import DTYPES
from augur.errors import OptionError
from augur_gen import StaticKVCache
from augur_model import QwenConfig


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of one model at one length, in bytes.

    Not in it: what a forward pass needs beside weights and cache. That is mostly the scores of
    attention, heads x chunk of the prompt x context numbers, which eager holds twice and sdpa
    hardly ever.

    Attributes:
        config: what the model is.
        context: tokens of prompt and answer together.
    """

    config: QwenConfig
    context: int

    @classmethod
    def of(cls, config: QwenConfig, context: int | None = None) -> "MemoryPlan":
        """A plan for `context` tokens; None takes all positions of the model.

        Raises:
            OptionError: the model has fewer positions.
        """
        num_positions = config.num_positions
        if context is not None and not 1 <= context <= num_positions:
            raise OptionError(
                "{context} is %r, expected from 1 to %d tokens, the positions that the model has",
                context,
                num_positions,
            )
        return cls(config, num_positions if context is None else context)

    def weight_bytes(self, dtype: torch.dtype) -> int:
        """All parameters in this dtype."""
        return self.config.num_parameters * dtype.itemsize

    def cache_bytes_per_token(self, dtype: torch.dtype) -> int:
        """Keys and values of one token in all layers."""
        return StaticKVCache.num_bytes_of(self.config, 1, dtype=dtype)

    def cache_bytes(self, dtype: torch.dtype) -> int:
        """The cache, which is taken whole. Sliding windows do not make it smaller."""
        return StaticKVCache.num_bytes_of(self.config, self.context, dtype=dtype)

    def as_json(self) -> dict[str, Any]:
        """All of it, in JSON's types; a dtype each under its name."""
        return {
            "parameters": self.config.num_parameters,
            "context": self.context,
            "dtypes": {
                name: {
                    "weight_bytes": self.weight_bytes(dtype),
                    "cache_bytes_per_token": self.cache_bytes_per_token(dtype),
                    "cache_bytes": self.cache_bytes(dtype),
                }
                for name, dtype in DTYPES.items()
            },
        }

    def as_text(self) -> str:
        """A table for a person, a dtype a line; GB are 10^9 bytes."""
        lines = [
            f"parameters  {self.config.num_parameters:,}",
            f"context     {self.context:,} tokens of {self.config.num_positions:,}",
            f"{'':<10}{'weights':>14}{'cache/token':>16}{'cache':>14}{'together':>14}",
        ]
        for name, dtype in DTYPES.items():
            weights, cache = self.weight_bytes(dtype), self.cache_bytes(dtype)
            per_token = f"{self.cache_bytes_per_token(dtype):,} B"
            sizes = "".join(f"{gigabytes(size):>14}" for size in (cache, weights + cache))
            lines.append(f"{name:<10}{gigabytes(weights):>14}{per_token:>16}{sizes}")
        return "\n".join(lines)


def gigabytes(num_bytes: int) -> str:
    """Rounded for a person: "0.99 GB"; small sizes in MB."""
    if num_bytes < 10**8:
        return f"{num_bytes / 10**6:,.1f} MB"
    return f"{num_bytes / 10**9:,.2f} GB"
