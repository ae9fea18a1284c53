"""What a rung is: a network, the ops it computes with, how it is stepped, and what that changes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from augur.devices import DTYPES, DTypeName
from augur.loading import load_model
from augur_bench.company import AnswerMany
from augur_bench.errors import BenchError
from augur_gen import UncachedSteps
from augur_model import Ops, QwenForCausalLM
from augur_proof import Candidate, NewSteps
from augur_proof.candidate import cached
from augur_weights import Checkpoint

Load = Callable[[Path, torch.device, torch.dtype], Any]
"""Checkpoint folder, device, dtype -> a network, ready to run."""


def load_plain(folder: Path, device: torch.device, dtype: torch.dtype) -> QwenForCausalLM:
    """augur's network, computing with the plain ops."""
    return load_model(Checkpoint(folder), device=device, dtype=dtype)


def uncached(logits_to_keep: int | None) -> NewSteps:
    """Recompute the whole sequence for every token.

    Args:
        logits_to_keep: positions that get logits; None is all.
    """
    return lambda model, _capacity: UncachedSteps(model, logits_to_keep=logits_to_keep)


@dataclass(frozen=True)
class Rung:
    """One step of the ladder. What is left out is as in the rung `cached`.

    Attributes:
        name: what `--rungs` and the tables call it.
        changes: what is different from its parent, in a few words.
        parent: the rung it is compared with; None for the first.
        dtype: of weights and cache; None takes the run's `--dtype`.
        ops: the table of ops to compute with, such as
            `dataclasses.replace(augur_model.EAGER, rms_norm=mine)`; None leaves the network's own.
            They are for augur's network.
        transform: changes the loaded network in place, as `augur_model.replace_linears` does for
            quantised weights. It counts as loading.
        new_steps: how a sequence is stepped: chunks, a compiled or fused decode step, no cache. It
            is called for each sequence, outside the timed phases; what sequences share, such as a
            compiled function, it makes at the first call and keeps. May raise
            `RungUnavailableError` where it does not go with the network.
        answer_many: how many sequences are answered, for the table of throughput; None for a rung
            that is not in it.
        load: another way to the network, or another engine's.
        compiles: whether its first decode step compiles something.
        missing: what this machine lacks to run it, as a sentence; None where it lacks nothing.

    Raises:
        BenchError: a name, words or a dtype that tables and options cannot show.
    """

    name: str
    changes: str
    parent: str | None = None
    dtype: DTypeName | None = None
    ops: Ops | None = None
    transform: Callable[[Any], object] | None = None
    new_steps: NewSteps = cached
    answer_many: AnswerMany | None = None
    load: Load = load_plain
    compiles: bool = False
    missing: Callable[[torch.device], str | None] | None = None

    def __post_init__(self) -> None:
        name, changes = self.name, self.changes
        if not _is_one_line(name) or not name or "," in name or name != name.strip():
            raise BenchError(
                f"a rung has the name {name!r}, expected words on one line without a comma"
            )
        if not _is_one_line(changes):
            raise BenchError(f"rung {name}: changes is {changes!r}, expected words on one line")
        if self.dtype is not None and self.dtype not in tuple(DTYPES):
            raise BenchError(
                f"rung {name}: dtype is {self.dtype!r}, expected one of {', '.join(DTYPES)}, or "
                "None for --dtype"
            )

    def open(self, folder: Path, device: torch.device, dtype: torch.dtype) -> Candidate:
        """The network of a checkpoint folder, with this rung's ops, transformed, and its steps."""
        model = self.load(folder, device, dtype)
        if self.ops is not None:
            model.ops = self.ops
        if self.transform is not None:
            self.transform(model)
        return Candidate(model, self.name, self.new_steps)


def _is_one_line(text: object) -> bool:
    return isinstance(text, str) and text.isprintable()
