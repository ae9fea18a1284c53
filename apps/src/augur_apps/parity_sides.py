"""The two sides of `parity.py`, opened one after the other so that one model at a time is held."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import augur
from augur.attention_choice import AttentionName
from augur.devices import DTypeName, choose_device
from augur.sources import resolve_model
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


def setting_of(
    model: str | None,
    dtype: DTypeName | None,
    device: str,
    max_new_tokens: int,
    *,
    ours: str | None = None,
) -> MadeWith:
    """What is asked of a side, on this machine; `ours` names augur's attention or table of ops."""
    engine = "transformers" if ours is None else "augur"
    model, dtype = model or DEFAULT_MODEL, dtype or "float32"
    return MadeWith(engine, model, dtype, device, ours or "eager", max_new_tokens)


@contextmanager
def _referee(setting: MadeWith, progress: Progress) -> Iterator[Referee]:
    device = choose_device(setting.device)
    # What augur does not support is refused here, not after minutes of the referee's work.
    folder = resolve_model(setting.model, progress=progress)
    referee = Referee.load(folder, device=device, dtype=DTYPES[setting.dtype])
    try:
        yield referee
    finally:
        del referee.model
        gc.collect()  # its modules refer to each other in circles


def referee_truth(setting: MadeWith, prompts: list[str], progress: Progress) -> GroundTruth:
    """transformers' answers, the logits of every step included.

    Raises:
        ProofError, WeightsError, ModelError, DeviceError: it cannot be run.
    """
    with _referee(setting, progress) as referee:
        return record_truth(referee, prompts, setting, progress)


def referee_passes(setting: MadeWith, prompt: str, progress: Progress) -> list[Pass]:
    """What transformers computes on the way; the last token asked for is not fed.

    Raises as `referee_truth`.
    """
    decode_steps = setting.max_new_tokens - 1
    with _referee(setting, progress) as referee:
        input_ids = referee.encode(prompt)
        check_fits(referee.config, "the prompt", len(input_ids), decode_steps, "decode steps")
        progress("transformers", 0, 1)
        passes = referee.record(input_ids, decode_steps)
        progress("transformers", 1, 1)
    return passes


def open_candidate(
    setting: MadeWith, attention: AttentionName | None, ops: Ops | None, progress: Progress
) -> tuple[augur.LLM, Candidate]:
    """augur as users open it, with its own attention or a table of ops on trial.

    Raises:
        WeightsError, ModelError, TokenizerError, DeviceError: it cannot be opened.
    """
    llm = augur.load(
        setting.model,
        device=setting.device,
        dtype=setting.dtype,
        attention=attention or "eager",
        progress=progress,
    )
    candidate = Candidate(llm.model, setting.attention)
    return llm, candidate if ops is None else candidate.with_ops(ops, setting.attention)
