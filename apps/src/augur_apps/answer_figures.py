"""What is told of an answer: an object for programs, a line for a person."""

import json
from typing import Any

from augur import LLM, TextResult
from augur.devices import dtype_name
from augur.generation_json import logprobs_json, sampling_json
from augur.memory import peak_memory_bytes
from augur.memory_plan import MemoryPlan, gigabytes
from augur.text_batch import BatchFigures
from augur_apps.console import stderr


def figures_of(
    model: str,
    llm: LLM,
    prompt_token_ids: list[int],
    result: TextResult,
    max_new_tokens: int,
) -> dict[str, Any]:
    """The answer and all its figures, in JSON's types; seconds, tokens/s and bytes.

    `max_new_tokens` is what was asked for: the cache had room for so many.
    """
    timings = result.generation.timings
    plan = MemoryPlan(llm.model.config, len(prompt_token_ids) + max_new_tokens)
    return {
        "model": model,
        "device": str(llm.model.device),
        "dtype": dtype_name(llm.model.dtype),
        "attention": llm.attention,
        "sampling": sampling_json(result.generation.sampling),
        "prompt_token_ids": prompt_token_ids,
        "num_reused_tokens": result.generation.num_reused_tokens,
        "token_ids": result.token_ids,
        "logprobs": logprobs_json(llm.tokenizer, result.generation.logprobs),
        "text": result.text,
        "finish_reason": result.finish_reason or "interrupted",
        "stop_string": result.stop_string,
        "load_s": llm.load_s,
        "ttft_s": timings.ttft_s,
        "prefill_s": timings.prefill_s,
        "prefill_tokens_per_s": timings.prefill_tokens_per_s,
        "decode_s": timings.decode_s,
        "decode_tokens_per_s": timings.decode_tokens_per_s,
        "weight_bytes": plan.weight_bytes(llm.model.dtype),
        "cache_bytes": plan.cache_bytes(llm.model.dtype),
        "peak_memory_bytes": peak_memory_bytes(llm.model.device),
    }


def figures_line(figures: dict[str, Any]) -> str:
    """The figures that a person wants to see, in one line."""

    def rate(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f} tokens/s"

    peak = figures["peak_memory_bytes"]
    num_prompt, num_new = len(figures["prompt_token_ids"]), len(figures["token_ids"])
    reused = figures["num_reused_tokens"]
    parts = [
        f"{figures['model']} on {figures['device']} in {figures['dtype']}, {figures['attention']}",
        f"load {figures['load_s']:.2f} s",
        f"first token {figures['ttft_s']:.2f} s",
        f"prefill {num_prompt - reused} tokens, {rate(figures['prefill_tokens_per_s'])}",
        f"decode {num_new} tokens, {rate(figures['decode_tokens_per_s'])}",
        f"finish: {figures['finish_reason']}",
        f"weights {gigabytes(figures['weight_bytes'])}",
        f"cache {gigabytes(figures['cache_bytes'])}",
    ]
    if reused:
        parts.append(f"reused {reused} of {num_prompt} prompt tokens")
    if figures["sampling"]["seed"] is not None:
        parts.append(f"seed {figures['sampling']['seed']}")
    if peak is not None:
        parts.append(f"peak {peak / 1e9:.2f} GB")
    return " | ".join(parts)


def tell_figures(figures: dict[str, Any], as_json: bool) -> None:
    """The line to stderr, and if asked the object to stdout."""
    if as_json:
        print(json.dumps(figures, ensure_ascii=False, allow_nan=False), flush=True)
    stderr.print(figures_line(figures), style="dim", markup=False)


def progress_words(figures: BatchFigures) -> str:
    """What many texts are doing now."""
    words = [
        f"{figures.tokens_per_s:.1f} tokens/s",
        f"{figures.num_running} running",
        f"{figures.num_waiting} waiting",
    ]
    if figures.num_blocks:
        words.append(f"{figures.num_blocks_in_use} of {figures.num_blocks} blocks")
    return ", ".join(words)


def batch_line(figures: BatchFigures) -> str:
    """What many texts came to, in one line."""
    parts = [
        f"{figures.num_new_tokens} tokens in {figures.elapsed_s:.2f} s",
        f"{figures.tokens_per_s:.1f} tokens/s",
        f"reused {figures.num_reused_tokens} of {figures.num_prompt_tokens} prompt tokens",
    ]
    if figures.num_blocks:
        parts.append(f"cache {gigabytes(figures.cache_bytes)} in {figures.num_blocks} blocks")
    if figures.num_preemptions:
        parts.append(f"computed anew for want of blocks: {figures.num_preemptions}")
    return " | ".join(parts)
