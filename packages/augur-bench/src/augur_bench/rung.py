"""What a rung is: one way to load a model and to run it, and what it changes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from augur.devices import DTypeName
from augur.loading import load_model
from augur_gen import CachedSteps, StaticKVCache, Steps, UncachedSteps
from augur_model import EAGER, Ops, QwenForCausalLM
from augur_weights import Checkpoint

Load = Callable[[Path, torch.device, torch.dtype], Any]
"""Checkpoint folder, device, dtype -> a model, ready to run."""

NewSteps = Callable[[], Steps]
"""Gives what makes the logits of one new sequence."""

Prepare = Callable[[Any, int], NewSteps]
"""The model, and how many tokens a sequence may come to -> what makes new sequences.

It is called once before many sequences: what they share, such as a compiled function, is made here.
"""


def with_ops(ops: Ops) -> Load:
    """Load augur's network, to compute with this table of ops."""

    def load(folder: Path, device: torch.device, dtype: torch.dtype) -> QwenForCausalLM:
        model = load_model(Checkpoint(folder), device=device, dtype=dtype)
        model.ops = ops
        return model

    return load


load_eager = with_ops(EAGER)


def cached(model: QwenForCausalLM, capacity: int) -> NewSteps:
    """Prefill and decode over a preallocated cache."""
    return lambda: CachedSteps(model, StaticKVCache.for_model(model, capacity))


def uncached(logits_to_keep: int | None) -> Prepare:
    """Recompute the whole sequence for every token.

    Args:
        logits_to_keep: positions that get logits; None is all.
    """

    def prepare(model: QwenForCausalLM, capacity: int) -> NewSteps:  # noqa: ARG001
        return lambda: UncachedSteps(model, logits_to_keep=logits_to_keep)

    return prepare


def nothing_missing(device: torch.device) -> None:
    """A rung that runs on every machine."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder.

    Attributes:
        name: what `--rungs` and the tables call it.
        changes: what is different from its parent, in a few words.
        parent: the rung it is compared with; None for the first.
        load: from a checkpoint folder to a model.
        prepare: from a model to new sequences. May raise `RungUnavailableError`.
        dtype: of weights and cache; None takes the run's `--dtype`.
        compiles: whether its first decode step compiles something.
        missing: what this machine lacks to run it, as a sentence; None where it lacks nothing.
    """

    name: str
    changes: str
    parent: str | None = None
    load: Load = load_eager
    prepare: Prepare = cached
    dtype: DTypeName | None = None
    compiles: bool = False
    missing: Callable[[torch.device], str | None] = nothing_missing
