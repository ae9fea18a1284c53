"""The project's rungs: the ladder, where each changes one thing, and other engines beside it.

To add one, add an entry. Other engines are measured by the same loop and clock, in the same table.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from augur.devices import DTypeName
from augur_bench.company import continuous, one_by_one, padded, paged, transformers_generate
from augur_bench.compiled import compiled, missing_compiler
from augur_bench.cuda_graph import cuda_graph, missing_cuda
from augur_bench.rung import Rung, uncached
from augur_gen import Steps
from augur_model import EAGER, SDPA
from augur_model.ops import blocked_linear
from augur_proof.errors import ProofError
from augur_proof.transformers_api import aligned, import_transformers, load_model, new_sequence

PeerName = Literal["transformers"]
HALVES: tuple[DTypeName, ...] = ("bfloat16", "float16")


class TransformersSteps(Steps):
    """transformers' forward pass over its own growing cache, without what its `generate` adds.

    Weights at odd addresses round otherwise, and augur's lie at even ones. They are moved here and
    not in `load`, whose seconds are then transformers' own.
    """

    def __init__(self, model: Any, _capacity: int) -> None:
        self._feed = new_sequence(aligned(model))

    @torch.inference_mode()
    def prefill(self, token_ids: Tensor) -> Tensor:
        """`[batch, length]` -> `[batch, vocab_size]`."""
        return self._feed(token_ids)

    decode = prefill


def _by_name(*rungs: Rung) -> dict[str, Rung]:
    return {rung.name: rung for rung in rungs}


def _transformers(attention: str, beside: str) -> Rung:
    """It, with this `attn_implementation` of its own, beside a rung of ours."""

    def load(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
        return load_model(folder, device=device, dtype=dtype, attention=attention)

    return Rung(
        f"transformers-{attention}",
        f"transformers, {'fused' if attention == 'sdpa' else attention} attention",
        beside,
        load=load,
        new_steps=TransformersSteps,
        answer_many=transformers_generate,
        missing=_missing_transformers,
    )


def _missing_transformers(_device: torch.device) -> str | None:
    """What to install, where transformers cannot be imported."""
    try:
        import_transformers()
    except ProofError as error:
        return str(error)
    return None


REFERENCE = Rung(
    "reference",
    "float32, eager attention, decode over the cache: what the others are held against",
    dtype="float32",
)

PLAIN = _by_name(
    *(
        Rung(f"plain-{dtype}", "the plain ops, whose own error is the measure", dtype=dtype)
        for dtype in HALVES
    )
)
"""What rungs in half precision are judged by: the reference's steps in their dtype."""

_IN = "weights, cache and sums in"
LADDER = _by_name(
    Rung("uncached", "recompute everything, all logits", new_steps=uncached(None)),
    Rung("last-logits", "logits of the last position alone", "uncached", new_steps=uncached(1)),
    Rung("cached", "keep keys and values of past tokens", "last-logits"),
    Rung(
        "blocked",
        "products of few rows in blocks",
        "cached",
        ops=replace(EAGER, linear=blocked_linear),
    ),
    Rung("sdpa", "fused attention", "blocked", ops=SDPA, answer_many=one_by_one),
    Rung("paged", "keys and values in blocks of 16", "sdpa", ops=SDPA, new_steps=paged),
    Rung("bfloat16", f"{_IN} bfloat16", "sdpa", ops=SDPA, dtype="bfloat16"),
    Rung("float16", f"{_IN} float16", "sdpa", ops=SDPA, dtype="float16"),
    Rung(
        "compiled",
        "torch.compile of the decode step",
        "cached",
        new_steps=compiled(),
        compiles=True,
        missing=missing_compiler,
    ),
    Rung(
        "cuda-graph",
        "the decode step recorded, and replayed as one launch",
        "sdpa",
        ops=SDPA,
        new_steps=cuda_graph(),
        compiles=True,
        missing=missing_cuda,
    ),
)

COMPANY = _by_name(
    Rung("padded", "many at once, in padded rows", "sdpa", ops=SDPA, answer_many=padded),
    Rung(
        "continuous",
        "many at once, packed over blocks",
        "paged",
        ops=SDPA,
        new_steps=paged,
        answer_many=continuous,
    ),
)
"""For many sequences. One alone takes the way of `sdpa`, and of `paged`."""

PEERS = _by_name(_transformers("eager", beside="cached"), _transformers("sdpa", beside="sdpa"))
