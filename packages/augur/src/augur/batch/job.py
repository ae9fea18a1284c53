"""A batch from its files to its files."""

from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from augur.attention_choice import AttentionName
from augur.batch.answers import (
    AnswerWriter,
    check_answered,
    check_made_with,
    put_in_order,
    read_answers,
)
from augur.batch.checkpoint_digest import checkpoint_sha256
from augur.batch.errors import one_error_for_all
from augur.batch.output_file import check_output, only_process_on
from augur.batch.prompts import BatchPrompt, read_prompts
from augur.batch_limits import BatchLimits
from augur.devices import DTypeName
from augur.errors import OptionError
from augur.generation_config import settings_of
from augur.generation_json import logprobs_json, options_json
from augur.llm import LLM, load
from augur.options import GenerationOptions, Options, check_options, decide
from augur.sources import resolve_model
from augur.text_batch import AskedText, BatchFigures, TextBatch
from augur_gen import GenerationError, TextResult
from augur_tok import TokenizerError
from augur_weights import Checkpoint, Progress

# Fixed, so that the same command can go on with the same draws.
_DEFAULT_SEED = 0


@dataclass(frozen=True)
class Job:
    """What to answer, and how.

    Attributes:
        input: the file of prompts.
        output: the file of answers.
        model: a name that `augur_weights.resolve` takes.
        device: to compute on.
        dtype: of weights and cache.
        attention: the name of the attention path.
        raw: prompts go as they stand.
        system: the system message of every chat.
        thinking: whether the model thinks before it answers; None leaves it to the template.
        prefill_chunk: prompt tokens for each forward pass, where prompts are answered one by one.
        limits: how many are answered together, and in how much memory.
        given: the options; where tokens are drawn and no seed is given, it is 0. No constraint,
            which a file of answers could not tell of.
    """

    input: Path
    output: Path
    model: str
    device: str
    dtype: DTypeName
    attention: AttentionName
    raw: bool
    system: str | None
    thinking: bool | None
    prefill_chunk: int
    limits: BatchLimits
    given: Options


@dataclass(frozen=True)
class Outcome:
    """What is in the file of answers at the end.

    Attributes:
        num_answers: all of them.
        num_errors: those that say why there is no text.
        num_new: those of this run.
        figures: of what this run generated; None where nothing was left to do.
    """

    num_answers: int
    num_errors: int
    num_new: int
    figures: BatchFigures | None


def run_batch(
    job: Job, progress: Progress, on_step: Callable[[BatchFigures], None] = lambda _: None
) -> Outcome:
    """Answer every prompt that has no answer yet.

    Each answer is written when it is there; once all are, they are put into the prompts' order. The
    file is then the same, byte for byte, whether the run was broken off or not and however many
    prompts were answered together, but for three things: under a limit of time a text's length
    depends on the machine's haste; together (see `BatchLimits`), one of two tokens that are nearly
    equally likely may be taken for the other; and log-probabilities may differ in their last
    digits.

    Args:
        job: what to do.
        progress: told how far downloads, imports and answers have come.
        on_step: told of every step.

    Raises:
        BatchError: the files are wrong, or do not go together; nothing was changed.
        WeightsError, ModelError, TokenizerError, OptionError: as for one prompt.
        NoRoomError: there is too little memory for the longest prompt's answer.
    """
    prompts = read_prompts(job.input, raw=job.raw, system=job.system)
    check_output(job.output, job.input)
    # All that needs no model is checked before one is fetched, which may take hours.
    check_options(job.given)
    if job.given.get("constraint") is not None:
        raise OptionError("{constraint} is not supported for a file of prompts. Leave it out")
    early = None if job.given.get("use_generation_config") else _common_options(job, prompts, None)
    with only_process_on(job.output):
        answers, num_bytes = read_answers(job.output)
        check_answered(job.output, answers, prompts)
        if early is not None:
            check_made_with(job.output, answers, _settings(job, early))
        folder = resolve_model(job.model, progress=progress)
        options = early if early is not None else _common_options(job, prompts, folder)
        digest = checkpoint_sha256(folder, progress)
        facts = {"checkpoint_sha256": digest} | _settings(job, options)
        check_made_with(job.output, answers, facts)
        answered = {answer["id"] for answer in answers}
        left = [prompt for prompt in prompts if prompt.id not in answered]
        num_errors = sum("error" in answer for answer in answers)
        batch = None
        if left:
            # Loaded before the file is touched: what cannot be loaded leaves it as it is.
            llm = load(folder, device=job.device, dtype=job.dtype, attention=job.attention)
            options.check_vocabulary(llm.model.config.vocab_size)
            asked, failed = _ask(llm, job, left, options)
            texts = [text for _, text in asked]
            batch = TextBatch(llm, texts, job.limits, prefill_chunk=job.prefill_chunk)
            with closing(AnswerWriter(job.output, num_bytes)) as writer:
                progress("answers", len(answered), len(prompts))
                ends = chain(failed, _ends(batch, [prompt for prompt, _ in asked], on_step))
                for done, (prompt, ended) in enumerate(ends, start=len(answered) + 1):
                    answer = {"id": prompt.id, **_answer(llm, ended)}
                    writer.write(answer | {"prompt_sha256": prompt.sha256, "made_with": facts})
                    num_errors += "error" in answer
                    progress("answers", done, len(prompts))
        put_in_order(job.output, prompts)
    figures = None if batch is None else batch.figures
    return Outcome(len(prompts), num_errors, len(left), figures)


def _common_options(job: Job, prompts: list[BatchPrompt], folder: Path | None) -> GenerationOptions:
    """The options for all lines, which every line goes with.

    Raises:
        BatchError: lines that do not.
    """
    settings = None if folder is None else settings_of(Checkpoint(folder))
    options = decide(job.given, settings if job.given.get("use_generation_config") else None)
    if options.is_random and options.sampling is not None and options.sampling.seed is None:
        options = options.with_seed(_DEFAULT_SEED)
    with one_error_for_all(job.input) as errors:
        for prompt in prompts:
            with errors.of_line(prompt.number):
                prompt.options(options)
    return options


def _settings(job: Job, options: GenerationOptions) -> dict[str, Any]:
    """What answers depend on beside their prompts and the checkpoint, in JSON's types.

    Two runs with the same settings give the same answers on one machine. The limits are not among
    them, whatever company may do to two tokens that are nearly equally likely: a run goes on with
    others, and none has the same company again.
    """
    return {
        "device": job.device,
        "dtype": job.dtype,
        "attention": job.attention,
        "torch": str(torch.__version__),
        "raw": job.raw,
        "system": job.system,
        "thinking": job.thinking,
        "prefill_chunk": job.prefill_chunk,
        **options_json(options),
    }


def _ask(
    llm: LLM, job: Job, prompts: list[BatchPrompt], common: GenerationOptions
) -> tuple[list[tuple[BatchPrompt, AskedText]], list[tuple[BatchPrompt, Exception]]]:
    """Encode all, which tells how much room they need: those that can be, and why others cannot."""
    asked: list[tuple[BatchPrompt, AskedText]] = []
    failed: list[tuple[BatchPrompt, Exception]] = []
    for prompt in prompts:
        name = f"{job.input}:{prompt.number}"
        try:
            token_ids = llm.encode(
                prompt.content, raw=job.raw, system=job.system, thinking=job.thinking
            )
        except (GenerationError, TokenizerError) as error:
            failed.append((prompt, error))
        else:
            # A list would take ten times the memory, and a file may have many lines.
            text = AskedText(name, array("i", token_ids), prompt.options(common))
            asked.append((prompt, text))
    return asked, failed


def _ends(
    batch: TextBatch, prompts: list[BatchPrompt], on_step: Callable[[BatchFigures], None]
) -> Iterator[tuple[BatchPrompt, TextResult | Exception]]:
    for step in batch:
        on_step(batch.figures)
        for place, ended in step.ended.items():
            yield prompts[place], ended


def _answer(llm: LLM, ended: TextResult | Exception) -> dict[str, Any]:
    if isinstance(ended, GenerationError | TokenizerError):
        return {"error": str(ended)}
    if isinstance(ended, Exception):
        raise ended  # nothing that a prompt could be the reason of
    generation = ended.generation
    return {
        "text": ended.text,
        "finish_reason": ended.finish_reason,
        "stop_string": ended.stop_string,
        "num_prompt_tokens": generation.num_reused_tokens + generation.timings.num_prompt_tokens,
        "token_ids": ended.token_ids,
        "seed": None if generation.sampling is None else generation.sampling.seed,
        "logprobs": logprobs_json(llm.tokenizer, generation.logprobs),
    }
