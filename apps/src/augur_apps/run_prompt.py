"""Answer one prompt, or a file of them: text on stdout as it is made, figures on stderr."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

import augur_apps.option_types as option
from augur.attention_choice import choose_attention
from augur.batch.errors import BatchError
from augur.batch.job import Job, run_batch
from augur.devices import choose_device, choose_dtype
from augur.engine import PREFILL_CHUNK, Engine, PromptError
from augur.generation_options import GenerationOptions, GivenOptions, OptionError
from augur.model_source import resolve_model
from augur_apps.answer_figures import figures_line, figures_of
from augur_apps.console import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    Debug,
    clear_errors,
    progress_bars,
    stderr,
)
from augur_gen import TextResult
from augur_weights import DEFAULT_MODEL

_BATCH = "Many prompts"
_MAX_PROMPT_BYTES = 64 * 1024**2  # more than any context holds


app = typer.Typer(add_completion=False)


@app.command()
def main(
    prompt: Annotated[
        str | None, typer.Argument(help="The prompt; left out or -, it is read from stdin.")
    ] = None,
    model: option.Model = DEFAULT_MODEL,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="The prompt as it stands: no chat template, control tokens are taken."
        ),
    ] = False,
    system: Annotated[str | None, typer.Option(help="The chat's system message.")] = None,
    thinking: option.Thinking = None,
    device: option.Device = None,
    dtype: option.DType = None,
    attention: option.Attention = None,
    prefill_chunk: Annotated[
        int,
        typer.Option(
            min=1,
            help="Feed a long prompt so many tokens at a time: memory then grows with its length, "
            "not with the square.",
        ),
    ] = PREFILL_CHUNK,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object instead of streaming the text; with --n one for each "
            "sample, a line each.",
        ),
    ] = False,
    num_samples: Annotated[
        int,
        typer.Option(
            "--n",
            min=1,
            help="So many texts, one after the other, each with its own prefill, with the seeds "
            "SEED, SEED + 1, and so on: each can be had alone. Needs a --temperature.",
        ),
    ] = 1,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="JSONL",
            help='Answer every line of this file: {"id": ..., "prompt": "..."}, or "messages" in '
            'place of "prompt"; without an id, its number. A line may set max_new_tokens and seed. '
            "All lines are checked before the model is loaded.",
            rich_help_panel=_BATCH,
        ),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="JSONL",
            help="Where --input's answers go, a line each. The same command goes on where a run "
            "was broken off; with other settings, another model or other prompts it is refused. "
            'A prompt that cannot be answered, being too long, say, gets a line with "error"; the '
            "others go on, and the exit status is 1.",
            rich_help_panel=_BATCH,
        ),
    ] = None,
    max_new_tokens: option.MaxNewTokens = None,
    min_new_tokens: option.MinNewTokens = None,
    stop: option.Stop = None,
    stop_token_id: option.StopTokenId = None,
    max_time: option.MaxTime = None,
    temperature: option.Temperature = None,
    top_k: option.TopK = None,
    top_p: option.TopP = None,
    min_p: option.MinP = None,
    repetition_penalty: option.RepetitionPenalty = None,
    presence_penalty: option.PresencePenalty = None,
    frequency_penalty: option.FrequencyPenalty = None,
    logit_bias: option.LogitBias = None,
    seed: option.Seed = None,
    logprobs: option.Logprobs = None,
    use_generation_config: option.UseGenerationConfig = False,
    debug: Debug = False,
) -> None:
    """Answer PROMPT with a Qwen model, text streamed to stdout; or every prompt of a file.

    The text ends at an EOS of the checkpoint, or after 256 tokens if nothing else is said.

    Tokens are chosen greedily, by the raw argmax, unless a --temperature is given: --top-k,
    --top-p, --min-p and --seed are about random draws and refused without one. Penalties, bias and
    logprobs go with both.

    A file's answers are seeded one by one, by --seed (0 if not given) and the line's id, so a run
    that was broken off and taken up again gives the file that an undisturbed one gives.
    """
    with clear_errors(BatchError, debug=debug):
        given = GivenOptions(
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            stop=stop,
            stop_token_id=stop_token_id,
            max_time=max_time,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            logit_bias=logit_bias,
            seed=seed,
            logprobs=logprobs,
            use_generation_config=use_generation_config,
        )
        chosen_device = choose_device(device)
        chosen_dtype = choose_dtype(dtype, chosen_device)
        attention = choose_attention(attention, chosen_dtype)
        if raw and (system is not None or thinking is not None):
            beside = "a system message" if system is not None else "a choice about thinking"
            raise OptionError(f"--raw goes without a chat template, to which {beside} belongs")
        if input_file is not None or output_file is not None:
            if input_file is None or output_file is None:
                raise OptionError("--input and --output go together; give both")
            if prompt is not None or as_json or num_samples > 1:
                raise OptionError(
                    "--input takes the place of PROMPT, --json and --n; leave them out"
                )
            job = Job(
                input=input_file,
                output=output_file,
                model=model,
                device=chosen_device,
                dtype=chosen_dtype,
                attention=attention,
                raw=raw,
                system=system,
                thinking=thinking,
                prefill_chunk=prefill_chunk,
                given=given,
            )
            _answer_all(job)
            return
        if logprobs is not None and not as_json:
            raise OptionError("--logprobs are told by --json alone; give both")
        given.check_samples(num_samples)
        text_in = _read_prompt(prompt)
        with progress_bars() as progress:
            folder = resolve_model(model, progress=progress)
        samples = given.options(folder).samples(num_samples)
        engine = Engine.load(folder, device=chosen_device, dtype=chosen_dtype, attention=attention)
        prompt_token_ids = engine.encode_prompt(text_in, raw=raw, system=system, thinking=thinking)
        for number, sample in enumerate(samples, start=1):
            if num_samples > 1:
                stderr.print(f"sample {number} of {num_samples}", style="bold")
            result = _answer(
                engine, prompt_token_ids, sample, chunk_size=prefill_chunk, stream=not as_json
            )
            if not as_json and (num_samples > 1 or sys.stdout.isatty()):
                print(flush=True)  # one text into a pipe or file goes alone, with nothing after it
            figures = figures_of(
                model, engine, prompt_token_ids, result, max_new_tokens=sample.max_new_tokens
            )
            if as_json:
                print(json.dumps(figures, ensure_ascii=False, allow_nan=False), flush=True)
            stderr.print(figures_line(figures), style="dim", markup=False)
            if result.finish_reason is None:
                raise SystemExit(EXIT_INTERRUPTED)


def _read_prompt(prompt: str | None) -> str:
    if prompt is not None and prompt != "-":
        return prompt
    if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
        raise typer.BadParameter("give a PROMPT, or pipe one to stdin")
    found = sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1)
    if len(found) > _MAX_PROMPT_BYTES:
        raise PromptError(
            f"the prompt on stdin has more than {_MAX_PROMPT_BYTES:,} bytes, which no context "
            "holds. Shorten it"
        )
    try:
        text = found.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise PromptError(f"the prompt on stdin is not UTF-8 (byte {error.start})") from error
    # One line end is the shell's (`echo`), not the prompt's.
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _answer_all(job: Job) -> None:
    try:
        with progress_bars() as progress:
            outcome = run_batch(job, progress)
    except KeyboardInterrupt:
        stderr.print(f"{job.output}: not complete; the same command goes on", markup=False)
        raise
    said = f"{job.output}: {outcome.num_answers} answers"
    if outcome.num_new < outcome.num_answers:
        said += f", {outcome.num_answers - outcome.num_new} of them from before"
    if outcome.num_new == 0:
        said += "; it is complete, nothing was done"
    stderr.print(said, markup=False)
    if outcome.num_errors:
        stderr.print(
            f"error: {outcome.num_errors} of {outcome.num_answers} prompts could not be answered; "
            'their lines have "error"',
            style="red",
        )
        raise SystemExit(EXIT_FAILURE)


def _answer(
    engine: Engine,
    prompt_token_ids: list[int],
    options: GenerationOptions,
    *,
    chunk_size: int,
    stream: bool,
) -> TextResult:
    """Generate, writing pieces to stdout if asked; Ctrl-C keeps what there is."""
    text = engine.generate(prompt_token_ids, options, chunk_size=chunk_size)

    def emit(piece: str) -> None:
        if stream:
            sys.stdout.write(piece)
            sys.stdout.flush()

    try:
        for piece in text:
            emit(piece)
    except KeyboardInterrupt:
        emit(text.finish())
    return text.result()
