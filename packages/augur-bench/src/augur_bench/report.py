"""The report: one Markdown page with its figures, and the data behind them."""

from pathlib import Path
from typing import Any

from augur_bench.bench_object import as_json
from augur_bench.figure_style import save
from augur_bench.growth_figure import growth_figure
from augur_bench.ladder_figure import ladder_figure
from augur_bench.roofline_figure import roofline_figure
from augur_bench.sheets import (
    Sheet,
    exactness_sheet,
    gain_sheet,
    pairs_sheet,
    speed_sheet,
    sweep_sheet,
)
from augur_bench.texts import count, footnotes, heading_lines, limits_lines, workload_text


def write_report(result: dict[str, Any], folder: Path) -> None:
    """Write report.md, bench.json, and each figure as SVG and PNG.

    Args:
        result: what `bench_object` gave.
        folder: made if it is not there; files of an earlier report are overwritten.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subtitle = _subtitle(result)
    if result["rungs"]:
        save(ladder_figure(result, subtitle), folder, "ladder")
        save(roofline_figure(result, subtitle), folder, "roofline")
    for name, sweep in result["sweeps"].items():
        figure = growth_figure(name, sweep, _machine(result))
        save(figure, folder, f"growth-{name}")
    (folder / "bench.json").write_text(as_json(result), encoding="utf-8")
    (folder / "report.md").write_text(report_text(result), encoding="utf-8")


def report_text(result: dict[str, Any]) -> str:
    """The page."""
    sections = [
        "# Bench report",
        _bullets([*heading_lines(result), *_environment_lines(result)]),
    ]
    if result["rungs"]:
        sections += [
            _section(
                speed_sheet(result),
                "![Decode rate, time to first token and logit difference of each rung](ladder.svg)",
            ),
            _section(
                exactness_sheet(result),
                "![Each rung under the machine's roofs](roofline.svg)",
                _bullets(limits_lines(result)),
            ),
            _section(gain_sheet(result)),
        ]
    if result["pairs"]:
        sections.append(_section(pairs_sheet(result)))
    for name, sweep in result["sweeps"].items():
        picture = f"![Prefill, decode, their ratio and cache memory by length](growth-{name}.svg)"
        sections.append(_section(sweep_sheet(name, sweep), picture))
    if footnotes(result):
        sections += ["## Notes", _bullets(footnotes(result))]
    return "\n\n".join(sections) + "\n"


def markdown_table(sheet: Sheet) -> str:
    """A sheet as a Markdown table."""
    headings = [name.replace("\n", " ") for name in sheet.columns]
    rule = [":--" if index in sheet.text_columns else "--:" for index in range(len(sheet.columns))]
    lines = [headings, rule, *([cell.replace("|", "\\|") for cell in row] for row in sheet.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _section(sheet: Sheet, *behind: str) -> str:
    return "\n\n".join((f"## {sheet.title}", markdown_table(sheet), *behind))


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _environment_lines(result: dict[str, Any]) -> list[str]:
    environment = result["environment"]
    return [
        f"commit {environment['commit'] or 'unknown'}, Python {environment['python']}, "
        f"{environment['system']}",
        "data: [bench.json](bench.json)",
    ]


def _subtitle(result: dict[str, Any]) -> str:
    return f"{_machine(result)}; {workload_text(result)}"


def _machine(result: dict[str, Any]) -> str:
    environment = result["environment"]
    return (
        f"{result['model']['name']} on {environment['gpu'] or environment['cpu']}, "
        f"{count(environment['threads'], 'thread')}, torch {environment['torch']}, "
        f"{environment['date'][:10]}"
    )
