"""Answer prompts, or a file of them: text on stdout as it is made, figures on stderr."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import augur_apps.option_types as option
from augur_apps.console import (
    EXIT_INTERRUPTED,
    Debug,
    clear_errors,
    progress_bars,
)

if TYPE_CHECKING:
    from augur import LLM, GenerationOptions, Options, TextResult, TextStream
    from augur.batch.job import Job
    from augur.batch_limits import BatchLimits

_MAX_PROMPT_BYTES = 64 * 1024**2  # more than any context holds


app = typer.Typer(add_completion=False)


@app.command()
def main(
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROMPT]...",
            help="The prompt; left out or -, it is read from stdin. Several are answered together, "
            "and their texts come one after the other.",
        ),
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
            "not with the square. Of many prompts, with --max-running 1 alone.",
            show_default="1024",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object instead of streaming the text; of several texts one for "
            "each, a line each.",
        ),
    ] = False,
    num_samples: Annotated[
        int,
        typer.Option(
            "--n",
            min=1,
            help="So many texts for each prompt, which is computed once, with the seeds SEED, "
            "SEED + 1, and so on, through all prompts: each can be had alone. Needs a "
            "--temperature.",
        ),
    ] = 1,
    input_file: Annotated[
        Path | None,
        option.many(
            "--input",
            metavar="JSONL",
            help='Answer every line of this file: {"id": ..., "prompt": "..."}, or "messages" in '
            'place of "prompt"; without an id, its number. A line may set max_new_tokens and seed. '
            "All lines are checked before the model is loaded.",
        ),
    ] = None,
    output_file: Annotated[
        Path | None,
        option.many(
            "--output",
            metavar="JSONL",
            help="Where --input's answers go, a line each, as they are ready and in the end in the "
            "prompts' order. The same command goes on where a run was broken off; with other "
            "settings, another model or other prompts it is refused. "
            'A prompt that cannot be answered, being too long, say, gets a line with "error"; the '
            "others go on, and the exit status is 1.",
        ),
    ] = None,
    max_running: option.MaxRunning = None,
    batch_tokens: option.BatchTokens = None,
    cache_memory: option.CacheMemory = None,
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
    """Answer PROMPT with a Qwen model, text streamed to stdout; or several; or those of a file.

    The text ends at an EOS of the checkpoint, or after 256 tokens if nothing else is said.

    Tokens are chosen greedily, by the raw argmax, unless a --temperature is given: --top-k,
    --top-p, --min-p and --seed are about random draws and refused without one. Penalties, bias and
    logprobs go with both.

    Many prompts are answered together, --max-running at a time, and what they begin with alike is
    computed once. A file's answers are seeded one by one, by --seed (0 if not given) and the line's
    id, so a run that was broken off and taken up again gives the file that an undisturbed one
    gives, and so does another --max-running, --batch-tokens or --cache-memory: but see
    --max-running for what company can change.
    """
    values = dict(locals())
    import augur  # noqa: PLC0415  (what is only asked for help does not wait for torch)
    from augur.batch.errors import BatchError  # noqa: PLC0415
    from augur.devices import choose_device, choose_dtype  # noqa: PLC0415
    from augur.options import check_options  # noqa: PLC0415
    from augur.sources import resolve_model  # noqa: PLC0415
    from augur_apps.answer_file import answer_file  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    with clear_errors(BatchError, debug=debug):
        given = option.given(values)
        check_options(given)
        limits = option.limits(values)
        choose_dtype(dtype, choose_device(device))  # refused before anything is fetched
        if raw and (system is not None or thinking is not None):
            beside = "a system message" if system is not None else "a choice about thinking"
            raise augur.OptionError(
                "{raw} goes without a chat template, to which %s belongs", beside
            )
        from_file = input_file is not None or output_file is not None
        is_one = not from_file and len(prompts or []) <= 1 and num_samples == 1
        _check_number(values, is_one=is_one, are_together=limits.max_running > 1)
        if from_file:
            answer_file(_job(values, given, limits))
            return
        if logprobs is not None and not as_json:
            raise augur.OptionError("{logprobs} are told by {json} alone; give both")
        is_greedy = temperature == 0 or (temperature is None and not use_generation_config)
        if num_samples > 1 and is_greedy:
            raise _same_samples(num_samples)
        texts_in = _read_prompts(prompts or [])
        with progress_bars() as progress:
            folder = resolve_model(model or DEFAULT_MODEL, progress=progress)
        llm = augur.load(folder, device=device, dtype=dtype, attention=attention)
        options = llm.options(**given)
        if num_samples > 1 and not options.is_random:
            raise _same_samples(num_samples)
        if is_one:
            _answer_one(llm, options, texts_in[0], values)
        else:
            _answer_many(llm, options, texts_in, values, limits)


def _answer_one(
    llm: "LLM", options: "GenerationOptions", text_in: str, values: dict[str, Any]
) -> None:
    from augur.llm import PREFILL_CHUNK  # noqa: PLC0415
    from augur_apps.answer_figures import figures_of, tell_figures  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    as_json = values["as_json"]
    token_ids = llm.encode(text_in, **_of_template(values))
    text = llm.generate(token_ids, options, chunk_size=values["prefill_chunk"] or PREFILL_CHUNK)
    result = _streamed(text, to_stdout=not as_json)
    if not as_json and sys.stdout.isatty():
        print(flush=True)  # into a pipe or file the text goes alone, with nothing after it
    model = values["model"] or DEFAULT_MODEL
    tell_figures(figures_of(model, llm, token_ids, result, options.max_new_tokens), as_json)
    if result.finish_reason is None:
        raise SystemExit(EXIT_INTERRUPTED)


def _answer_many(
    llm: "LLM",
    options: "GenerationOptions",
    texts_in: list[str],
    values: dict[str, Any],
    limits: "BatchLimits",
) -> None:
    from augur.llm import PREFILL_CHUNK  # noqa: PLC0415
    from augur.text_batch import TextBatch  # noqa: PLC0415
    from augur_apps.answer_many import answer_many  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    asked = llm.ask(
        texts_in, options, values["num_samples"], first_number=1, **_of_template(values)
    )
    batch = TextBatch(llm, asked, limits, prefill_chunk=values["prefill_chunk"] or PREFILL_CHUNK)
    answer_many(values["model"] or DEFAULT_MODEL, llm, asked, batch, as_json=values["as_json"])


def _of_template(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in ("raw", "system", "thinking")}


def _check_number(values: dict[str, Any], *, is_one: bool, are_together: bool) -> None:
    """Refuse options about many texts where one is asked for, and of one where there are many."""
    from augur import OptionError  # noqa: PLC0415

    for name in ("max_running", "batch_tokens", "cache_memory"):
        if is_one and values[name] is not None:
            raise OptionError(
                f"{{{name}}} is about many texts, and one is asked for. Leave it out, or give "
                "several prompts, {n} or {input}"
            )
    if values["prefill_chunk"] is not None and not is_one and are_together:
        raise OptionError(
            "{prefill_chunk} is about a prompt that is answered alone; together, {batch_tokens} "
            "limits what a step feeds. Give that, or {max_running} 1"
        )


def _same_samples(num_samples: int) -> Exception:
    from augur import OptionError  # noqa: PLC0415

    return OptionError(
        "{n} is %d, and without a temperature all texts would be the same. Give {temperature} "
        "above 0, or leave {n} out",
        num_samples,
    )


def _read_prompts(prompts: list[str]) -> list[str]:
    from augur import PromptError  # noqa: PLC0415

    if len(prompts) > 1 and "-" in prompts:
        raise typer.BadParameter("- stands for stdin, and goes without another PROMPT")
    if prompts and prompts != ["-"]:
        return prompts
    if sys.stdin is None or (not prompts and sys.stdin.isatty()):
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
    return [text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")]


def _job(values: dict[str, Any], given: "Options", limits: "BatchLimits") -> "Job":
    """What to do with a file; `values` are the program's arguments."""
    from augur import OptionError  # noqa: PLC0415
    from augur.attention_choice import choose_attention  # noqa: PLC0415
    from augur.batch.job import Job  # noqa: PLC0415
    from augur.devices import choose_device, choose_dtype, dtype_name  # noqa: PLC0415
    from augur.llm import PREFILL_CHUNK  # noqa: PLC0415
    from augur_weights import DEFAULT_MODEL  # noqa: PLC0415

    if values["input_file"] is None or values["output_file"] is None:
        raise OptionError("{input} and {output} go together; give both")
    if values["prompts"] or values["as_json"] or values["num_samples"] > 1:
        raise OptionError("{input} takes the place of PROMPT, {json} and {n}; leave them out")
    device = choose_device(values["device"])
    dtype = choose_dtype(values["dtype"], device)
    return Job(
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
        limits=limits,
        given=given,
    )


def _streamed(text: "TextStream", *, to_stdout: bool) -> "TextResult":
    """Generate, writing pieces to stdout if asked; Ctrl-C keeps what there is."""

    def emit(piece: str) -> None:
        if to_stdout:
            sys.stdout.write(piece)
            sys.stdout.flush()

    try:
        for piece in text:
            emit(piece)
    except KeyboardInterrupt:
        emit(text.finish())
    return text.result()
