"""Answer one prompt, or a file of them: text on stdout as it is made, figures on stderr."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import augur_apps.option_types as option
from augur_apps.console import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    Debug,
    clear_errors,
    progress_bars,
    stderr,
)

if TYPE_CHECKING:
    from augur import Options, TextResult, TextStream

_BATCH = "Many prompts"
_MAX_PROMPT_BYTES = 64 * 1024**2  # more than any context holds


app = typer.Typer(add_completion=False)


@app.command()
def main(
    prompt: Annotated[
        str | None, typer.Argument(help="The prompt; left out or -, it is read from stdin.")
    ] = None,
    model: option.Model = None,
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
        int | None,
        typer.Option(
            min=1,
            help="Feed a long prompt so many tokens at a time: memory then grows with its length, "
            "not with the square.",
            show_default="1024",
        ),
    ] = None,
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
    values = dict(locals())
    import augur  # noqa: PLC0415  (what is only asked for help does not wait for torch)
    from augur.batch.errors import BatchError  # noqa: PLC0415
    from augur.devices import choose_device, choose_dtype  # noqa: PLC0415
    from augur.llm import PREFILL_CHUNK  # noqa: PLC0415
    from augur.options import check_options  # noqa: PLC0415
    from augur.sources import resolve_model  # noqa: PLC0415
    from augur_apps.answer_figures import figures_line, figures_of  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    with clear_errors(BatchError, debug=debug):
        model = model or DEFAULT_MODEL
        given = option.given(values)
        check_options(given)
        choose_dtype(dtype, choose_device(device))  # refused before anything is fetched
        if raw and (system is not None or thinking is not None):
            beside = "a system message" if system is not None else "a choice about thinking"
            raise augur.OptionError(
                "{raw} goes without a chat template, to which %s belongs", beside
            )
        if input_file is not None or output_file is not None:
            _answer_file(values, given)
            return
        if logprobs is not None and not as_json:
            raise augur.OptionError("{logprobs} are told by {json} alone; give both")
        is_greedy = temperature == 0 or (temperature is None and not use_generation_config)
        if num_samples > 1 and is_greedy:
            raise _same_samples(num_samples)
        text_in = _read_prompt(prompt)
        with progress_bars() as progress:
            folder = resolve_model(model, progress=progress)
        llm = augur.load(folder, device=device, dtype=dtype, attention=attention)
        options = llm.options(**given)
        if num_samples > 1 and not options.is_random:
            raise _same_samples(num_samples)
        token_ids = llm.encode(text_in, raw=raw, system=system, thinking=thinking)
        for number, sample in enumerate(options.samples(num_samples), start=1):
            if num_samples > 1:
                stderr.print(f"sample {number} of {num_samples}", style="bold")
            text = llm.generate(token_ids, sample, chunk_size=prefill_chunk or PREFILL_CHUNK)
            result = _answer(text, stream=not as_json)
            if not as_json and (num_samples > 1 or sys.stdout.isatty()):
                print(flush=True)  # one text into a pipe or file goes alone, with nothing after it
            figures = figures_of(model, llm, token_ids, result, sample.max_new_tokens)
            if as_json:
                print(json.dumps(figures, ensure_ascii=False, allow_nan=False), flush=True)
            stderr.print(figures_line(figures), style="dim", markup=False)
            if result.finish_reason is None:
                raise SystemExit(EXIT_INTERRUPTED)


def _same_samples(num_samples: int) -> Exception:
    from augur import OptionError  # noqa: PLC0415

    return OptionError(
        "{n} is %d, and without a temperature all texts would be the same. Give {temperature} "
        "above 0, or leave {n} out",
        num_samples,
    )


def _read_prompt(prompt: str | None) -> str:
    from augur import PromptError  # noqa: PLC0415

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


def _answer_file(values: dict[str, Any], given: "Options") -> None:
    """Answer every line of a file; `values` are the program's arguments."""
    from augur import OptionError  # noqa: PLC0415
    from augur.attention_choice import choose_attention  # noqa: PLC0415
    from augur.batch.job import Job, run_batch  # noqa: PLC0415
    from augur.devices import choose_device, choose_dtype, dtype_name  # noqa: PLC0415
    from augur.llm import PREFILL_CHUNK  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    if values["input_file"] is None or values["output_file"] is None:
        raise OptionError("{input} and {output} go together; give both")
    if values["prompt"] is not None or values["as_json"] or values["num_samples"] > 1:
        raise OptionError("{input} takes the place of PROMPT, {json} and {n}; leave them out")
    device = choose_device(values["device"])
    dtype = choose_dtype(values["dtype"], device)
    job = Job(
        input=values["input_file"],
        output=values["output_file"],
        model=values["model"] or DEFAULT_MODEL,
        device=str(device),
        dtype=dtype_name(dtype),
        attention=choose_attention(values["attention"], dtype),
        raw=values["raw"],
        system=values["system"],
        thinking=values["thinking"],
        prefill_chunk=values["prefill_chunk"] or PREFILL_CHUNK,
        given=given,
    )
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


def _answer(text: "TextStream", *, stream: bool) -> "TextResult":
    """Generate, writing pieces to stdout if asked; Ctrl-C keeps what there is."""

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
