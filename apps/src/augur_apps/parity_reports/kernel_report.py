"""What a kernel's trial prints and writes: verdict, worst case, a line for each workload."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augur_apps.parity_reports.figures import json_number, short, ulps_cell
from augur_proof.kernels import Outcome, Rate, dtype_name

_REPORT_WIDTH = 160
_SHORT = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


@dataclass(frozen=True)
class Trial:
    """What came of one op.

    Attributes:
        op: its name.
        lines: each workload's outcome, and its rate where it was timed.
    """

    op: str
    lines: list[tuple[Outcome, Rate | None]]

    @property
    def failed(self) -> list[Outcome]:
        """Those that did not hold, or were faster than can be, or wrong when timed."""
        return [outcome for outcome, rate in self.lines if _fault(outcome, rate)]

    @property
    def worst_first(self) -> list[tuple[Outcome, Rate | None]]:
        """Those that failed, then those that used most of their budget."""
        return sorted(self.lines, key=lambda one: (not _fault(*one), -one[0].share))

    @property
    def semantics(self) -> str | None:
        """The rounding order that it follows on every workload that can tell."""
        told = {outcome.semantics for outcome, _ in self.lines} - {None}
        return told.pop() if len(told) == 1 else None

    @property
    def fallbacks(self) -> list[str]:
        """torch's own operators for this op that it called."""
        return sorted({name for outcome, _ in self.lines for name in outcome.falls_back_on})


@dataclass(frozen=True)
class KernelReport:
    """All that is told.

    Attributes:
        spec: the name it was found by.
        device: where it ran.
        interpreted: by Triton's interpreter, whose arithmetic is not a GPU's.
        trials: one for each op.
    """

    spec: str
    device: str
    interpreted: bool
    trials: list[Trial]

    @property
    def held(self) -> bool:
        """Whether nothing was wrong anywhere."""
        return not any(trial.failed for trial in self.trials)

    @property
    def label(self) -> str:
        """What a pass stands for."""
        return "semantics" if self.interpreted else "conformant"

    def to_json(self) -> dict[str, Any]:
        """Everything, as one object for JSON."""
        return {
            "held": self.held,
            "kernel": self.spec,
            "device": self.device,
            "label": self.label if self.held else None,
            "ops": [
                {
                    "op": trial.op,
                    "held": not trial.failed,
                    "num_failed": len(trial.failed),
                    "semantics": trial.semantics,
                    "falls_back_on": trial.fallbacks,
                    "workloads": [_line_object(*line) for line in trial.worst_first],
                }
                for trial in self.trials
            ],
        }


def print_kernel(console: Console, report: KernelReport) -> None:
    """The verdict on each op, its worst case, and its table."""
    for trial in report.trials:
        failed = trial.failed
        count = len(trial.lines)
        if failed:
            verdict = f"{trial.op}: REJECTED, {len(failed)} of {count} workloads failed"
            console.print(verdict, style="bold red")
        else:
            console.print(f"{trial.op}: {report.label}, all {count} workloads held", style="green")
        for line in _words(trial, report):
            console.print(f"  {line}", markup=False, soft_wrap=True)
        # The workload is the one column that gives way.
        unbounded = console.options.update(width=10 * _REPORT_WIDTH)
        others = console.measure(_table(trial, 1), options=unbounded).maximum - 1
        room = max(12, console.width - others)
        table = _table(trial, room)
        # A terminal too narrow for the figures breaks the lines; it does not cut the figures.
        table.width = others + room
        console.print(table, crop=False)


def write_report(folder: Path, report: KernelReport) -> None:
    """`kernel.json`, `report.md`, and for each op a picture, as SVG and PNG."""
    from augur_apps.parity_reports.kernel_figure import draw_kernel  # noqa: PLC0415  (matplotlib)

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=2) + "\n"
    (folder / "kernel.json").write_text(text, encoding="utf-8")
    page = [f"# {report.spec} on {report.device}", ""]
    for trial in report.trials:
        draw_kernel(
            folder, f"{trial.op} by {report.spec} on {report.device}", trial.op, trial.lines
        )
        written = StringIO()
        console = Console(file=written, width=_REPORT_WIDTH, emoji=False, highlight=False)
        print_kernel(console, KernelReport(report.spec, report.device, report.interpreted, [trial]))
        rows = [line.rstrip() for line in written.getvalue().rstrip().splitlines()]
        page += [f"![{trial.op}]({trial.op}.svg)", "", "```", *rows, "```", ""]
    (folder / "report.md").write_text("\n".join(page), encoding="utf-8")


def _fault(outcome: Outcome, rate: Rate | None) -> str | None:
    """What is wrong, in words."""
    if not outcome.held:
        return outcome.complaint
    if rate and not rate.check.held:
        return f"when it was timed: {rate.check.complaint}"
    if rate and not rate.believable:
        return f"too fast to be true: {rate.share:.3g} times what the machine's {rate.bound} allows"
    return None


def _words(trial: Trial, report: KernelReport) -> Iterator[str]:
    """The worst case, what it looks like, and what else a person should know."""
    outcome, rate = trial.worst_first[0]
    fault = _fault(outcome, rate)
    kind = dtype_name(outcome.workload.dtype)
    if fault:
        yield f"worst   {fault}"
        yield f"where   {outcome.where or 'everywhere'}"
        mistakes = Counter(one.looks_like for one in trial.failed if one.looks_like)
        if mistakes:
            name, count = mistakes.most_common(1)[0]
            yield f"likely  {name} (fits {count} of {len(trial.failed)})"
    else:
        yield f"worst   {outcome.share:.0%} of its budget"
    yield f"on      {kind}: {outcome.workload}; seed {outcome.seed}"
    if trial.semantics:
        yield f"rounds  {trial.semantics}"
    if trial.fallbacks:
        yield f"note    it calls torch's own {', '.join(trial.fallbacks)}"
    if report.interpreted and not fault:
        yield "note    run by Triton's interpreter: its meaning is right, a GPU was not asked"


def _table(trial: Trial, width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("workload", no_wrap=True, overflow="ellipsis", max_width=width)
    for title in (
        "bud-\nget",
        "rms/\nplain",
        "round-\nings",
        "ULPs",
        "differ",
        "G/s",
        "limit",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for outcome, rate in trial.worst_first:
        table.add_row(
            *(Text("FAILED", style="bold red") if _fault(outcome, rate) else Text("ok"),),
            _SHORT[outcome.workload.dtype],
            Text(str(outcome.workload)),
            *_figures(outcome),
            *_rates(rate),
        )
    return table


def _figures(outcome: Outcome) -> tuple[str, ...]:
    figures = outcome.figures
    if figures is None:
        return ("-",) * 5
    judged = figures.judgement
    return (
        f"{judged.share:.0%}" if judged.share < 10 else f"{judged.share:.2g}",
        f"{judged.rms_ratio:.2g}",
        f"{judged.candidate.largest:.2g}",
        ulps_cell(figures.ulps),
        f"{figures.mismatches:.0%}",
    )


def _rates(rate: Rate | None) -> tuple[str, str]:
    """What was achieved, of bytes or of floating-point operations, and the share of the limit."""
    if rate is None:
        return "-", "-"
    done, unit = (rate.bytes_moved, "B") if rate.bound == "memory" else (rate.flops, "FLOP")
    return f"{short(done / rate.seconds / 1e9)} {unit}", f"{rate.share:.0%}"


def _line_object(outcome: Outcome, rate: Rate | None) -> dict[str, Any]:
    workload, figures = outcome.workload, outcome.figures
    fault = _fault(outcome, rate)
    return {
        "held": fault is None,
        "complaint": fault,
        "where": outcome.where or None,
        "looks_like": outcome.looks_like,
        "dtype": dtype_name(workload.dtype),
        "axes": dict(workload.axes),
        "layout": workload.layout,
        "values": workload.values,
        "scalars": dict(workload.scalars),
        "seed": outcome.seed,
        "semantics": outcome.semantics,
        "operators": sorted(outcome.operators),
        "errors": None
        if figures is None
        else {
            "output": figures.output,
            "share_of_budget": json_number(figures.judgement.share),
            "shares": {n: json_number(share) for n, share in figures.judgement.shares.items()},
            "rms": json_number(figures.judgement.candidate.rms),
            "rms_of_plain": json_number(figures.judgement.plain.rms),
            "largest": json_number(figures.judgement.candidate.largest),
            "largest_at": list(figures.judgement.candidate.index),
            "largest_absolute": json_number(figures.absolute),
            "bias": json_number(figures.judgement.candidate.bias),
            "found": json_number(figures.found),
            "expected": json_number(figures.oracle),
            "ulps": figures.ulps,
            "share_differing": figures.mismatches,
        },
        "rate": None
        if rate is None
        else {
            "seconds": rate.seconds,
            "bytes": rate.bytes_moved,
            "flops": rate.flops,
            "bound": rate.bound,
            "share_of_limit": rate.share,
            "believable": rate.believable,
        },
    }
