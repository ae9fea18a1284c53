"""The two sides of a proof, opened one after the other so that one model at a time is held."""

import gc
from dataclasses import dataclass

from augur.attention_choice import AttentionName
from augur.devices import DTYPES, DTypeName, choose_device
from augur.llm import LLM, load
from augur.loading import read_config
from augur.sources import resolve_model
from augur_model import Ops, QwenConfig
from augur_proof.candidate import candidate_answer
from augur_proof.compare import Comparison, compare
from augur_proof.demand import Demand
from augur_proof.errors import ProofError
from augur_proof.ground_truth import GroundTruth
from augur_proof.guarded_ops import guard_ops
from augur_proof.made_with import MadeWith
from augur_proof.recording import Pass
from augur_proof.referee import Referee
from augur_weights import Checkpoint, Progress


@dataclass(frozen=True)
class Setting:
    """What a user chooses for a side.

    Attributes:
        model: a name that `augur_weights.resolve` takes.
        dtype: of weights and logits, such as "float32".
        device: such as "cpu".
    """

    model: str
    dtype: DTypeName
    device: str


def referee_truth(
    setting: Setting, prompts: list[str], max_new_tokens: int, progress: Progress
) -> GroundTruth:
    """transformers' answers, the logits of every step included.

    Raises:
        ProofError, WeightsError, ModelError, DeviceError: it cannot be run.
    """
    answers = []
    referee, config = _open_referee(setting, progress)
    # All before the first is answered: that takes minutes.
    for number, prompt in enumerate(prompts, start=1):
        _check_fits(
            config, f"prompt {number}", len(referee.encode(prompt)), max_new_tokens, "new tokens"
        )
    for done, prompt in enumerate(prompts):
        progress("transformers", done, len(prompts))
        answers.append(referee.answer(prompt, max_new_tokens))
    progress("transformers", len(prompts), len(prompts))
    del referee
    _free()
    return GroundTruth(_made_with("transformers", setting, "eager", max_new_tokens), answers)


def referee_record(
    setting: Setting, prompt: str, decode_steps: int, progress: Progress
) -> tuple[MadeWith, list[Pass]]:
    """What transformers computes on the way, for one prompt and some decode steps.

    Raises:
        ProofError, WeightsError, ModelError, DeviceError: it cannot be run.
    """
    referee, config = _open_referee(setting, progress)
    input_ids = referee.encode(prompt)
    _check_fits(config, "the prompt", len(input_ids), decode_steps, "decode steps")
    progress("transformers", 0, 1)
    passes = referee.record(input_ids, decode_steps)
    progress("transformers", 1, 1)
    del referee
    _free()
    return _made_with("transformers", setting, "eager", decode_steps + 1), passes


def open_candidate(
    setting: Setting,
    attention: AttentionName,
    ops: tuple[str, Ops] | None,
    max_new_tokens: int,
    progress: Progress,
) -> tuple[LLM, MadeWith]:
    """augur's engine.

    Args:
        setting: what to open.
        attention: augur's own path, where no table of ops is given.
        ops: a name and a table, to compute with instead.
        max_new_tokens: what will be asked of it.
        progress: told how far an import of the model has come.

    Raises:
        WeightsError, ModelError, TokenizerError, DeviceError: it cannot be opened.
    """
    engine = load(
        setting.model,
        device=setting.device,
        dtype=setting.dtype,
        attention=attention,
        progress=progress,
    )
    name: str = attention
    if ops is not None:
        name, table = ops
        guard_ops(engine.model, table)
    return engine, _made_with("augur", setting, name, max_new_tokens)


def compare_prompts(
    engine: LLM, truth: GroundTruth, demand: Demand, progress: Progress
) -> list[Comparison]:
    """augur's answers to the truth's prompts, each compared and let go.

    Raises:
        GenerationError, TokenizerError, ProofError: the truth is not for this model.
    """
    found = []
    for done, reference in enumerate(truth.answers):
        progress("augur", done, len(truth.answers))
        ours = candidate_answer(
            engine, reference.prompt, reference.input_ids, truth.made_with.max_new_tokens
        )
        found.append(compare(reference, ours, demand))
    progress("augur", len(truth.answers), len(truth.answers))
    return found


def _open_referee(setting: Setting, progress: Progress) -> tuple[Referee, QwenConfig]:
    device, dtype = choose_device(setting.device), DTYPES[setting.dtype]
    folder = resolve_model(setting.model, progress=progress)
    # What augur does not support is refused now, not after minutes of the referee's work.
    config = read_config(Checkpoint(folder))
    return Referee.load(folder, device=device, dtype=dtype), config


def _check_fits(
    config: QwenConfig, what: str, num_prompt_tokens: int, num_more: int, more: str
) -> None:
    """Raise `ProofError` where the tokens are more than the model's positions."""
    wanted, limit = num_prompt_tokens + num_more, config.num_positions
    if wanted > limit:
        raise ProofError(
            f"{what} has {num_prompt_tokens} tokens and {num_more} {more} follow: {wanted}, but "
            f"the model has {limit} positions. Ask for fewer"
        )


def _free() -> None:
    """Give a model's memory back now: its modules refer to each other in circles."""
    gc.collect()


def _made_with(engine: str, setting: Setting, attention: str, max_new_tokens: int) -> MadeWith:
    return MadeWith.here(
        engine,
        setting.model,
        dtype=setting.dtype,
        device=setting.device,
        attention=attention,
        max_new_tokens=max_new_tokens,
    )
