"""The two sides of `parity.py`, opened one after the other so that one model at a time is held."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import augur
from augur.devices import DTypeName, choose_device
from augur.sources import resolve_model
from augur_apps.option_types import AttentionName
from augur_model import Ops
from augur_proof import (
    DTYPES,
    Candidate,
    GroundTruth,
    MadeWith,
    Pass,
    Referee,
    check_fits,
    record_truth,
)
from augur_weights import DEFAULT_MODEL, Progress


class Setting(NamedTuple):
    """What a user chooses for a side."""

    model: str
    dtype: DTypeName
    device: str

    @classmethod
    def of(cls, model: str | None, dtype: DTypeName | None, device: str) -> "Setting":
        """With what stands for what was left out."""
        return cls(model or DEFAULT_MODEL, dtype or "float32", device)

    def made_with(self, engine: str, attention: str, max_new_tokens: int) -> MadeWith:
        """As reports and files tell it."""
        return MadeWith(engine, *self, attention, max_new_tokens)


@contextmanager
def _referee(setting: Setting, progress: Progress) -> Iterator[Referee]:
    device = choose_device(setting.device)
    # What augur does not support is refused here, not after minutes of the referee's work.
    folder = resolve_model(setting.model, progress=progress)
    referee = Referee.load(folder, device=device, dtype=DTYPES[setting.dtype])
    try:
        yield referee
    finally:
        del referee.model
        gc.collect()  # its modules refer to each other in circles


def referee_truth(
    setting: Setting, prompts: list[str], max_new_tokens: int, progress: Progress
) -> GroundTruth:
    """transformers' answers, the logits of every step included.

    Raises:
        ProofError, WeightsError, ModelError, DeviceError: it cannot be run.
    """
    made_with = setting.made_with("transformers", "eager", max_new_tokens)
    with _referee(setting, progress) as referee:
        return record_truth(referee, prompts, made_with, progress)


def referee_passes(
    setting: Setting, prompt: str, decode_steps: int, progress: Progress
) -> tuple[MadeWith, list[Pass]]:
    """What transformers computes on the way; raises as `referee_truth`."""
    with _referee(setting, progress) as referee:
        input_ids = referee.encode(prompt)
        check_fits(referee.config, "the prompt", len(input_ids), decode_steps, "decode steps")
        progress("transformers", 0, 1)
        passes = referee.record(input_ids, decode_steps)
        progress("transformers", 1, 1)
    return setting.made_with("transformers", "eager", decode_steps + 1), passes


def open_candidate(
    setting: Setting,
    attention: AttentionName | None,
    on_trial: tuple[str, Ops] | None,
    progress: Progress,
) -> tuple[augur.LLM, Candidate]:
    """augur as users open it, with its own attention or a table of ops, with its name, on trial.

    Raises:
        WeightsError, ModelError, TokenizerError, DeviceError: it cannot be opened.
    """
    attention = attention or "eager"
    llm = augur.load(**setting._asdict(), attention=attention, progress=progress)
    candidate = Candidate(llm.model, attention)
    if on_trial is not None:
        name, ops = on_trial
        candidate = candidate.with_ops(ops, name)
    return llm, candidate
