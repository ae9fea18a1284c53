"""Answer one prompt: text on stdout as it is made, figures on stderr."""

import signal

if __name__ == "__main__":
    # There is nothing to keep yet: while the modules load, Ctrl-C just ends the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import json
import sys
from typing import Annotated, Any

import typer

from augur_gen import GenerationResult
from augur_weights import DEFAULT_MODEL, resolve
from console import (
    EXIT_INTERRUPTED,
    EXIT_WRONG_INPUT,
    MODEL_HELP,
    clear_errors,
    progress_bars,
    stderr,
)
from devices import DTypeName, choose_device, choose_dtype, dtype_name
from engine import AttentionName, Engine
from memory import peak_memory_bytes


def main(
    prompt: Annotated[
        str | None, typer.Argument(help="The prompt; left out or -, it is read from stdin.")
    ] = None,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = DEFAULT_MODEL,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Stop after this many tokens.")] = 256,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="The prompt as it stands: no chat template, control tokens are taken."
        ),
    ] = False,
    system: Annotated[str | None, typer.Option(help="The chat's system message.")] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cuda, cuda:1, mps or cpu.", show_default="the first of them there is"),
    ] = None,
    dtype: Annotated[
        DTypeName | None,
        typer.Option(
            help="Of weights and cache.",
            show_default="bfloat16 where the device computes in it natively, else float32",
        ),
    ] = None,
    attention: Annotated[
        AttentionName,
        typer.Option(help="eager is the bit-exact reference; sdpa is fused and close to it."),
    ] = "eager",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of streaming the text.")
    ] = False,
) -> None:
    """Answer PROMPT with a Qwen model: greedy decoding, text streamed to stdout."""
    with clear_errors():
        text_in = _read_prompt(prompt)
        chosen_device = choose_device(device)
        chosen_dtype = choose_dtype(dtype, chosen_device)
        with progress_bars() as progress:
            folder = resolve(model, progress=progress)
        engine = Engine.load(folder, device=chosen_device, dtype=chosen_dtype, attention=attention)
        prompt_token_ids = engine.encode_prompt(text_in, raw=raw, system=system)
        text, result = _answer(engine, prompt_token_ids, max_new_tokens, stream=not as_json)
        figures = _figures(model, engine, prompt_token_ids, text, result)
        if as_json:
            print(json.dumps(figures, ensure_ascii=False))
        stderr.print(_figures_line(figures), style="dim", markup=False)
    if result.finish_reason is None:
        raise SystemExit(EXIT_INTERRUPTED)


def _read_prompt(prompt: str | None) -> str:
    if prompt is not None and prompt != "-":
        return prompt
    if prompt is None and sys.stdin.isatty():
        raise typer.BadParameter("give a PROMPT, or pipe one to stdin")
    try:
        # The last newline is the shell's (`echo`), not the prompt's.
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        stderr.print(f"error: the prompt on stdin is not UTF-8 (byte {error.start})", style="red")
        raise SystemExit(EXIT_WRONG_INPUT) from error


def _answer(
    engine: Engine, prompt_token_ids: list[int], max_new_tokens: int, *, stream: bool
) -> tuple[str, GenerationResult]:
    """Generate, writing pieces to stdout if asked; Ctrl-C keeps what there is."""
    generation = engine.generate(prompt_token_ids, max_new_tokens)
    decoder = engine.tokenizer.stream(skip_special_tokens=True)
    pieces: list[str] = []

    def emit(piece: str) -> None:
        pieces.append(piece)
        if stream:
            sys.stdout.write(piece)
            sys.stdout.flush()

    try:
        for token_id in generation:
            emit(decoder.push(token_id))
    except KeyboardInterrupt:
        pass
    emit(decoder.finish())
    if stream and sys.stdout.isatty():
        print()  # into a pipe or file goes the text, and nothing else
    return "".join(pieces), generation.result()


def _figures(
    model: str, engine: Engine, prompt_token_ids: list[int], text: str, result: GenerationResult
) -> dict[str, Any]:
    timings = result.timings
    return {
        "model": model,
        "device": str(engine.model.device),
        "dtype": dtype_name(engine.model.dtype),
        "attention": engine.attention,
        "prompt_token_ids": prompt_token_ids,
        "token_ids": result.token_ids,
        "text": text,
        "finish_reason": result.finish_reason or "interrupted",
        "load_s": engine.load_s,
        "ttft_s": timings.ttft_s,
        "prefill_s": timings.prefill_s,
        "prefill_tokens_per_s": timings.prefill_tokens_per_s,
        "decode_s": timings.decode_s,
        "decode_tokens_per_s": timings.decode_tokens_per_s,
        "peak_memory_bytes": peak_memory_bytes(engine.model.device),
    }


def _figures_line(figures: dict[str, Any]) -> str:
    def rate(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f} tokens/s"

    peak = figures["peak_memory_bytes"]
    num_prompt, num_new = len(figures["prompt_token_ids"]), len(figures["token_ids"])
    parts = [
        f"{figures['model']} on {figures['device']} in {figures['dtype']}, {figures['attention']}",
        f"load {figures['load_s']:.2f} s",
        f"first token {figures['ttft_s']:.2f} s",
        f"prefill {num_prompt} tokens, {rate(figures['prefill_tokens_per_s'])}",
        f"decode {num_new} tokens, {rate(figures['decode_tokens_per_s'])}",
        f"finish: {figures['finish_reason']}",
    ]
    if peak is not None:
        parts.append(f"peak {peak / 1e9:.2f} GB")
    return " | ".join(parts)


if __name__ == "__main__":
    typer.run(main)
