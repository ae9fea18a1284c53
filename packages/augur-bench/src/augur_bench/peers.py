"""Other engines, measured by the same loop and clock: rungs like ours, in the same table."""

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from augur_bench.rung import Load, NewSteps, Rung
from augur_gen import Steps
from augur_proof.errors import ProofError
from augur_proof.transformers_api import (
    aligned,
    import_transformers,
    load_model,
    new_sequence,
)

PeerName = Literal["transformers"]


def transformers_model(attention: str) -> Load:
    """Load with transformers.

    Args:
        attention: its `attn_implementation`.
    """

    def load(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
        return load_model(folder, device=device, dtype=dtype, attention=attention)

    return load


def transformers_steps(model: Any, capacity: int) -> NewSteps:  # noqa: ARG001
    """Its forward pass over its own growing cache.

    Weights at odd addresses round otherwise, and augur's lie at even ones. They are moved here and
    not in `load`, whose seconds are then transformers' own.
    """
    aligned(model)
    return lambda: TransformersSteps(model)


class TransformersSteps(Steps):
    """Prefill and decode of one sequence, without the work that its `generate` adds to them."""

    def __init__(self, model: Any) -> None:
        self._feed = new_sequence(model)

    @torch.inference_mode()
    def prefill(self, token_ids: Tensor) -> Tensor:
        """`[batch, length]` -> `[batch, vocab_size]`."""
        return self._feed(token_ids)

    @torch.inference_mode()
    def decode(self, token_ids: Tensor) -> Tensor:
        """`[batch, 1]` -> `[batch, vocab_size]`."""
        return self._feed(token_ids)


def missing_transformers(device: torch.device) -> str | None:  # noqa: ARG001
    """What to install, where transformers cannot be imported."""
    try:
        import_transformers()
    except ProofError as error:
        return str(error)
    return None


PEERS: dict[str, Rung] = {
    rung.name: rung
    for rung in (
        Rung(
            name="transformers-eager",
            parent="cached",
            changes="transformers, eager attention",
            load=transformers_model("eager"),
            prepare=transformers_steps,
            missing=missing_transformers,
        ),
        Rung(
            name="transformers-sdpa",
            parent="sdpa",
            changes="transformers, fused attention",
            load=transformers_model("sdpa"),
            prepare=transformers_steps,
            missing=missing_transformers,
        ),
    )
}
