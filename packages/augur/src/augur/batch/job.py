"""A batch from its files to its files."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from augur.attention_choice import AttentionName
from augur.batch.answers import AnswerWriter, check_answered, check_made_with, read_answers
from augur.batch.checkpoint_digest import checkpoint_sha256
from augur.batch.errors import one_error_for_all
from augur.batch.output_file import check_output, only_process_on
from augur.batch.prompts import BatchPrompt, read_prompts
from augur.devices import DTypeName
from augur.errors import NoRoomError, OptionError
from augur.generation_config import settings_of
from augur.generation_json import logprobs_json, options_json
from augur.llm import LLM, load
from augur.options import GenerationOptions, Options, check_options, decide
from augur.sources import resolve_model
from augur_gen import GenerationError
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
        prefill_chunk: prompt tokens for each forward pass.
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
    given: Options


@dataclass(frozen=True)
class Outcome:
    """What is in the file of answers at the end.

    Attributes:
        num_answers: all of them.
        num_errors: those that say why there is no text.
        num_new: those of this run.
    """

    num_answers: int
    num_errors: int
    num_new: int


def run_batch(job: Job, progress: Progress) -> Outcome:
    """Answer every prompt that has no answer yet, in the file's order.

    Answers are the same, byte for byte, whether the run was broken off or not; but for a limit of
    time, under which a text's length depends on the machine's haste.

    Raises:
        BatchError: the files are wrong, or do not go together; nothing was changed.
        WeightsError, ModelError, TokenizerError, OptionError: as for one prompt.
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
        if left:
            # Loaded before the file is touched: what cannot be loaded leaves it as it is.
            llm = load(folder, device=job.device, dtype=job.dtype, attention=job.attention)
            with closing(AnswerWriter(job.output, num_bytes)) as writer:
                progress("answers", len(answered), len(prompts))
                for done, answer in enumerate(_answers(llm, job, left, options), start=1):
                    writer.write(answer | {"made_with": facts})
                    num_errors += "error" in answer
                    progress("answers", len(answered) + done, len(prompts))
    return Outcome(len(prompts), num_errors, len(left))


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

    Two runs with the same settings give the same answers on one machine.
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


def _answers(
    llm: LLM, job: Job, prompts: list[BatchPrompt], common: GenerationOptions
) -> Iterator[dict[str, Any]]:
    for prompt in prompts:
        answer: dict[str, Any] = {"id": prompt.id}
        try:
            answer |= _answer(llm, job, prompt, prompt.options(common))
        except (OptionError, NoRoomError) as error:
            # No answer: with other options, or at another time, there would be one.
            told = f"%s:%d: {error.template}"
            raise type(error)(told, job.input, prompt.number, *error.values) from error
        except (GenerationError, TokenizerError) as error:
            answer["error"] = str(error)
        yield answer | {"prompt_sha256": prompt.sha256}


def _answer(llm: LLM, job: Job, prompt: BatchPrompt, options: GenerationOptions) -> dict[str, Any]:
    prompt_token_ids = llm.encode(
        prompt.content, raw=job.raw, system=job.system, thinking=job.thinking
    )
    result = llm.generate(prompt_token_ids, options, chunk_size=job.prefill_chunk).run()
    sampling = result.generation.sampling
    return {
        "text": result.text,
        "finish_reason": result.finish_reason,
        "stop_string": result.stop_string,
        "num_prompt_tokens": len(prompt_token_ids),
        "token_ids": result.token_ids,
        "seed": None if sampling is None else sampling.seed,
        "logprobs": logprobs_json(llm.tokenizer, result.generation.logprobs),
    }
