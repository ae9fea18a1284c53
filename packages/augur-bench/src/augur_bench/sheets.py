"""The result's tables, as text cells: one content for the terminal and for the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from augur_bench.texts import (
    exact,
    parting_text,
    percent,
    quantity,
    times,
    times_range,
    with_spread,
)


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        title: what it shows.
        columns: headings; a line break where a narrow table may break them.
        rows: cells, as many in each as there are columns.
        text_columns: columns that hold words, not numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    text_columns: tuple[int, ...] = (0,)


def speed_sheet(result: dict[str, Any]) -> Sheet:
    """Seconds, rates and memory."""
    columns = (
        "rung",
        "load\ns",
        "first token\ns",
        "prefill\ntokens/s",
        "decode\ntokens/s",
        "token\np50 ms",
        "token\np95 ms",
        "peak\nGB",
    )
    rows = [
        (
            rung["name"],
            with_spread(rung["load_s"]),
            with_spread(rung["ttft_s"]),
            with_spread(rung["prefill_tokens_per_s"]),
            with_spread(rung["decode_tokens_per_s"]),
            quantity(rung["token_s"]["p50"], 1e3),
            quantity(rung["token_s"]["p95"], 1e3),
            quantity(rung["peak_memory_bytes"], 1e-9),
        )
        for rung in result["rungs"]
    ]
    return Sheet("Speed: median of the runs ± half their range", columns, rows)


def exactness_sheet(result: dict[str, Any]) -> Sheet:
    """What each rung costs, and how near it comes to the limits."""
    columns = (
        "rung",
        "largest\nlogit diff",
        "mean KL\nnats",
        "largest KL\nnats",
        "same top\ntoken",
        "own text parts\nat (margin)",
        "prefill\n% limit",
        "decode\n% limit",
    )
    rows = [
        (
            rung["name"],
            exact(rung["exactness"]["max_abs_diff"]),
            exact(rung["exactness"]["mean_kl_nats"]),
            exact(rung["exactness"]["max_kl_nats"]),
            f"{rung['exactness']['num_same_top']}/{rung['exactness']['num_positions']}",
            parting_text(rung["exactness"]["own_text"]),
            percent(rung["share"]["prefill"]),
            percent(rung["share"]["decode"]),
        )
        for rung in result["rungs"]
    ]
    title = "Held against the float32 eager reference, and against the machine's limit"
    return Sheet(title, columns, rows)


def gain_sheet(result: dict[str, Any]) -> Sheet:
    """What each rung changes, and what that gains."""
    rows = []
    for rung in result["rungs"]:
        gain = rung["gain"] or {"prefill": None, "decode": None}
        rows.append(
            (
                rung["name"],
                rung["parent"] or "",
                times(gain["prefill"]),
                times(gain["decode"]),
                rung["changes"],
            )
        )
    return Sheet(
        "What each rung changes, and how many times faster it is than its parent",
        ("rung", "parent", "prefill", "decode", "what it changes"),
        rows,
        text_columns=(0, 1, 4),
    )


def pairs_sheet(result: dict[str, Any]) -> Sheet:
    """Ours beside a peer."""
    rows = [
        (
            f"{pair['ours']} / {pair['theirs']}",
            times_range(pair["prefill"]),
            times_range(pair["ttft"]),
            times_range(pair["decode"]),
        )
        for pair in result["pairs"]
    ]
    return Sheet(
        "How many times faster ours is: median (range) of runs that took turns",
        ("ours / theirs", "prefill", "first token", "decode"),
        rows,
    )


def sweep_sheet(name: str, sweep: dict[str, Any]) -> Sheet:
    """How both phases and the cache grow."""
    columns = (
        "prompt\ntokens",
        "new\ntokens",
        "cache\nMB",
        "prefill s\ncached",
        "prefill s\nuncached",
        "ms a token\ncached",
        "ms a token\nuncached",
        "cached decodes\nfaster",
    )
    rows = [
        (
            str(point["prompt_tokens"]),
            str(point["new_tokens"]),
            quantity(point["cache_bytes"], 1e-6),
            with_spread(point["cached_prefill_s"]),
            with_spread(point["uncached_prefill_s"]),
            with_spread(point["cached_token_s"], 1e3),
            with_spread(point["uncached_token_s"], 1e3),
            times(point["decode_ratio"]),
        )
        for point in sweep["points"]
    ]
    title = f"Growth with {'the prompt' if name == 'prompt' else 'the new tokens'}"
    return Sheet(title, columns, rows, text_columns=())


def all_sheets(result: dict[str, Any]) -> list[Sheet]:
    """Every table there is something to put in."""
    sheets = [speed_sheet(result), exactness_sheet(result), gain_sheet(result)]
    if result["pairs"]:
        sheets.append(pairs_sheet(result))
    return sheets + [sweep_sheet(name, sweep) for name, sweep in result["sweeps"].items()]
