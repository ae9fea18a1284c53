"""Figures as text: the same in the terminal's tables and in the report."""

from typing import Any

NOTHING = "-"


def quantity(value: float | None, scale: float = 1.0) -> str:
    """Three significant digits, with an exponent only far below 1."""
    if value is None:
        return NOTHING
    scaled = value * scale
    size = abs(scaled)
    if size == 0:
        return "0"
    if size < 0.01:
        return f"{scaled:.1e}"
    decimals = 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{scaled:,.{decimals}f}"


def with_spread(spread: dict[str, float] | None, scale: float = 1.0) -> str:
    """ "5.91 ±2%": the median, and half the range as a part of it; "5.91 ±-" of one reading."""
    if spread is None:
        return NOTHING
    return f"{quantity(spread['median'], scale)} ±{_relative_range(spread)}"


def times(ratio: dict[str, float] | None) -> str:
    """ "5.2x ±3%"."""
    if ratio is None:
        return NOTHING
    return f"{quantity(ratio['median'])}x ±{_relative_range(ratio)}"


def times_range(ratio: dict[str, float] | None) -> str:
    """ "5.2x (5.0-5.4)"."""
    if ratio is None:
        return NOTHING
    if _is_single(ratio):
        return f"{quantity(ratio['median'])}x ({NOTHING})"
    return f"{quantity(ratio['median'])}x ({quantity(ratio['low'])}-{quantity(ratio['high'])})"


def exact(value: float) -> str:
    """Two digits and an exponent; a plain 0 for exactly zero."""
    return "0" if value == 0 else f"{value:.1e}"


def percent(share: dict[str, Any] | None) -> str:
    """ "61 ±2": percent of the limit that is nearer, and half the range."""
    if share is None:
        return NOTHING
    spread = share["of_roofline"]
    half_range = NOTHING if _is_single(spread) else f"{100 * _half_range(spread):.0f}"
    return f"{100 * spread['median']:.0f} ±{half_range}"


def parting_text(own_text: dict[str, Any]) -> str:
    """ "none in 32", or "at 12 (0.031)", counted from 1."""
    if own_text["index"] is None:
        return f"none in {own_text['num_tokens']}"
    return f"at {own_text['index'] + 1} ({quantity(own_text['margin'])})"


def workload_text(result: dict[str, Any]) -> str:
    """ "35 prompt tokens, 32 new tokens"."""
    work = result["workload"]
    prompt = count(work["prompt_tokens"], "prompt token")
    return f"{prompt}, {count(work['max_new_tokens'], 'new token')}"


def heading_lines(result: dict[str, Any]) -> list[str]:
    """What ran on what."""
    environment, model, work = result["environment"], result["model"], result["workload"]
    return [
        f"{model['name']}, {model['num_parameters']:,} parameters, on "
        f"{environment['gpu'] or environment['cpu']}",
        f"{count(environment['threads'], 'thread')}, torch {environment['torch']}, "
        f"{environment['date']}",
        f"{workload_text(result)}; {count(work['rounds'], 'round')} of up to "
        f"{count(work['repeats'], 'run')}; logits compared there and over "
        f"{count(work['check_prompts'], 'prompt')}",
    ]


def limits_lines(result: dict[str, Any]) -> list[str]:
    """What the machine allows, and what a token takes at the least."""
    limits = result["limits"]
    lines = [f"this machine reads {quantity(limits['bytes_per_s']['high'], 1e-9)} GB/s"]
    for dtype, spread in limits["flops_per_s"].items():
        line = f"{dtype:<8}  multiplies at {quantity(spread['high'], 1e-9)} GFLOP/s"
        work = result["work"].get(dtype)
        if work is not None:
            line += (
                f"; a prompt token takes {quantity(work['prefill_flops_per_token'], 1e-9)} GFLOP"
            )
            if work["decode_bytes_per_token"] is not None:
                line += f", a new one reads {quantity(work['decode_bytes_per_token'], 1e-6)} MB"
        lines.append(line)
    return lines


def footnotes(result: dict[str, Any]) -> list[str]:
    """What belongs to single rungs, and what a reader should know."""
    lines = [
        f"{rung['name']}: {with_spread(rung['compile_s'])} s to compile, before the runs and in no "
        "rate"
        for rung in result["rungs"]
        if rung["compile_s"] is not None
    ]
    lines += [f"{one['name']} left out: {one['reason']}" for one in result["left_out"]]
    return lines + [f"note: {note}" for note in result["notes"]]


def _relative_range(spread: dict[str, float]) -> str:
    """ "2%": half the range as a part of the median; "-" where there is no range."""
    if _is_single(spread):
        return NOTHING
    return f"{_half_range(spread) / spread['median']:.0%}"


def _is_single(spread: dict[str, float]) -> bool:
    """Whether it is of one reading, of which no spread is known: no two seconds are equal."""
    return spread["low"] == spread["high"]


def _half_range(spread: dict[str, float]) -> float:
    return (spread["high"] - spread["low"]) / 2


def count(number: int, noun: str) -> str:
    """ "1 run", "3 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
