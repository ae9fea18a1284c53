"""The result in words: the lines around the tables, and one Markdown page with its figures."""

from pathlib import Path
from typing import Any

from augur_bench.result import as_json
from augur_bench.sheets import SUMMARY, Sheet, all_sheets, quantity, verdict_text, with_spread


def write_report(result: dict[str, Any], folder: Path) -> None:
    """Write report.md, bench.json, and each figure as SVG and PNG.

    Args:
        result: what `result_object` gave.
        folder: made if it is not there; files of an earlier report are overwritten.
    """
    from augur_bench.figures import (  # noqa: PLC0415  (matplotlib takes a second)
        growth_figure,
        ladder_figure,
        save,
        throughput_figure,
    )
    from augur_bench.roofline import roofline_figure  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    environment, (processor, threads) = result["environment"], _machine(result)
    where = f"{result['model']['name']} on {processor}, {threads}, torch {environment['torch']}"
    subtitle = f"{where}, {environment['date'][:10]}"
    if result["rungs"]:
        work = f"{subtitle}; {_workload(result)}"
        save(ladder_figure(result, work), folder, "ladder")
        save(roofline_figure(result, work), folder, "roofline")
    for name, sweep in result["sweeps"].items():
        save(growth_figure(name, sweep, subtitle), folder, f"growth-{name}")
    if result["throughput"]:
        save(throughput_figure(result["throughput"], subtitle), folder, "throughput")
    (folder / "bench.json").write_text(as_json(result), encoding="utf-8")
    (folder / "report.md").write_text(report_text(result), encoding="utf-8")


def report_text(result: dict[str, Any]) -> str:
    """The page."""
    environment = result["environment"]
    about = [
        *heading_lines(result),
        f"commit {environment['commit'] or 'unknown'}, Python {environment['python']}, "
        f"{environment['system']}",
        "data: [bench.json](bench.json)",
    ]
    parts = ["# Bench report", _bullets(about)]
    if result["rungs"]:
        parts.append(markdown_table(Sheet("In short", SUMMARY, result["rungs"])))
    for sheet in all_sheets(result):
        parts += [f"## {sheet.title}", markdown_table(sheet)]
        if sheet.picture is not None:
            file, shows = sheet.picture
            parts.append(f"![{shows}]({file}.svg)")
    parts += ["## Limits and notes", _bullets([*limits_lines(result), *footnotes(result)])]
    return "\n\n".join(parts) + "\n"


def markdown_table(sheet: Sheet) -> str:
    """A sheet as a Markdown table."""
    headings = [column.heading.replace("\n", " ") for column in sheet.columns]
    rule = [":--" if column.is_words else "--:" for column in sheet.columns]
    lines = [headings, rule, *([cell.replace("|", "\\|") for cell in row] for row in sheet.cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def heading_lines(result: dict[str, Any]) -> list[str]:
    """What ran on what."""
    environment, model, work = result["environment"], result["model"], result["workload"]
    processor, threads = _machine(result)
    return [
        f"{model['name']}, {model['num_parameters']:,} parameters, on {processor}",
        f"{threads}, torch {environment['torch']}, {environment['date']}",
        f"{_workload(result)}; {_count(work['rounds'], 'round')} of up to "
        f"{_count(work['repeats'], 'run')}; logits compared there and over "
        f"{_count(work['check_prompts'], 'prompt')}",
    ]


def limits_lines(result: dict[str, Any]) -> list[str]:
    """What the machine allows, and what a token takes at the least."""
    limits = result["limits"]
    lines = [f"this machine reads {quantity(limits['bytes_per_s']['high'], 1e-9)} GB/s"]
    for dtype, spread in limits["flops_per_s"].items():
        line = f"{dtype:<8}  multiplies at {quantity(spread['high'], 1e-9)} GFLOP/s"
        work = result["work"].get(dtype, {"prefill": None, "decode": None})
        if work["prefill"]:
            flops = work["prefill"]["flops"] / result["workload"]["prompt_tokens"]
            line += f"; a prompt token takes {quantity(flops, 1e-9)} GFLOP"
        if work["decode"]:
            line += f", a new one reads {quantity(work['decode']['num_bytes'], 1e-6)} MB"
        lines.append(line)
    return lines


def footnotes(result: dict[str, Any]) -> list[str]:
    """What belongs to single rungs, and what a reader should know."""
    before = "s to compile, before the runs and in no rate"
    verdicts = [f"{rung['name']} {verdict_text(rung['verdict'])}" for rung in result["rungs"]]
    return [
        *([f"of what rounding explains: {', '.join(verdicts)}"] if verdicts else []),
        *(
            f"{rung['name']}: {with_spread(rung['compile_s'])} {before}"
            for rung in result["rungs"]
            if rung["compile_s"] is not None
        ),
        *(f"{one['name']} left out: {one['reason']}" for one in result["left_out"]),
        *(f"note: {note}" for note in result["notes"]),
    ]


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _machine(result: dict[str, Any]) -> tuple[str, str]:
    environment = result["environment"]
    threads = _count(environment["threads"], "thread")
    return environment["gpu"] or environment["cpu"], threads


def _workload(result: dict[str, Any]) -> str:
    """ "35 prompt tokens, 32 new tokens"."""
    work = result["workload"]
    prompt = _count(work["prompt_tokens"], "prompt token")
    return f"{prompt}, {_count(work['max_new_tokens'], 'new token')}"


def _count(number: int, noun: str) -> str:
    """ "1 run", "3 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
