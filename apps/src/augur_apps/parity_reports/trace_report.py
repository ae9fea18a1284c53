"""What a trace prints: the first place that differs, what stands around it, and all others."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from augur_apps.parity_reports.figures import (
    json_number,
    print_setting,
    short,
    ulps_cell,
    ulps_text,
)
from augur_proof import Demand, Finding, MadeWith

# Rows shown before and after the first difference.
_AROUND = 6
# Places listed beside the first; the rest are counted.
_LISTED = 8
_LISTED_PASSES = 2


def print_trace(
    console: Console,
    ours: MadeWith,
    reference: MadeWith,
    demand: Demand,
    findings: list[Finding],
) -> None:
    """Setting, the first place that is not held, the rows around it, and the others by name."""
    demanded = "every output within {}, for the reference's own inputs"
    print_setting(console, ours, reference, demand, demanded)
    failed = [one for one in findings if not one.difference.held]
    if not failed:
        largest = max(findings, key=lambda one: one.difference.largest)
        console.print(f"{len(findings):,} outputs compared, all held", style="green")
        if largest.difference.num_differing:
            console.print(
                f"the largest difference, {short(largest.difference.largest)}, is at "
                f"{largest.point} in the {largest.pass_label}",
                markup=False,
                soft_wrap=True,
            )
        return
    first, found = failed[0], failed[0].difference
    console.print(f"\nfirst difference: {first.point}", style="bold red", markup=False)
    for line in (
        f"{_op(first.op)}, in the {first.pass_label}",
        f"largest difference {short(found.largest)}{ulps_text(found.ulps)} at {_place(first)}",
        f"augur {found.ours:.9g}, reference {found.reference:.9g}",
        f"{found.num_differing:,} of {found.num_values:,} values differ",
        *([first.budget.complaint] if first.budget and first.budget.complaint else []),
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)
    console.print(_table_around(first, findings))
    _print_others(console, failed, findings)


def trace_object(
    ours: MadeWith, reference: MadeWith, demand: Demand, findings: list[Finding]
) -> dict[str, Any]:
    """Everything that differs, as one object for JSON."""
    failed = [_finding_object(one) for one in findings if not one.difference.held]
    return {
        "held": not failed,
        "candidate": ours.to_json(),
        "reference": reference.to_json(),
        "demand": {"outputs": str(demand.tolerance), **asdict(demand.tolerance)},
        "num_outputs": len(findings),
        "first": failed[0] if failed else None,
        "failed": failed,
    }


def _op(name: str | None) -> str:
    return f"op {name}" if name else "no op of the table"


def _place(one: Finding) -> str:
    """Token by its position in the sequence, channel, and head where there is one."""
    index = one.difference.index
    place = f"token {one.first_position + index[-2]}, channel {index[-1]}"
    return f"head {index[1]}, {place}" if len(index) == 4 else place


def _table_around(first: Finding, findings: list[Finding]) -> Table:
    middle = next(i for i, one in enumerate(findings) if one is first)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("  in order of execution", no_wrap=True)
    table.add_column("op", no_wrap=True)
    table.add_column("largest diff", justify="right", no_wrap=True)
    table.add_column("ULPs", justify="right", no_wrap=True)
    for one in findings[max(0, middle - _AROUND) : middle + _AROUND + 1]:
        found = one.difference
        table.add_row(
            f"{'>' if one is first else ' '} {one.point}",
            one.op or "",
            short(found.largest),
            ulps_cell(found.ulps),
            style="" if found.held else "red",
        )
    return table


def _print_others(console: Console, failed: list[Finding], findings: list[Finding]) -> None:
    console.print(f"{len(failed):,} of {len(findings):,} outputs differ:")
    for op, count in Counter(one.op for one in failed).items():
        of_op = sum(one.op == op for one in findings)
        console.print(f"  {_op(op)}: {count:,} of {of_op:,}", markup=False)
    passes_of: dict[str, list[str]] = {}
    for one in failed:
        passes_of.setdefault(str(one.point), []).append(one.pass_label)
    for place, labels in list(passes_of.items())[:_LISTED]:
        when = ", ".join(labels) if len(labels) <= _LISTED_PASSES else f"{len(labels)} passes"
        console.print(f"  {place}: {when}", markup=False, soft_wrap=True)
    if len(passes_of) > _LISTED:
        console.print(f"  and {len(passes_of) - _LISTED:,} more places (--json lists all)")


def _finding_object(one: Finding) -> dict[str, Any]:
    found = one.difference
    return {
        "point": str(one.point),
        "module": one.point.module,
        "part": one.point.part,
        "op": one.op,
        "pass": one.pass_label,
        "largest_difference": json_number(found.largest),
        "ulps": found.ulps,
        "token": one.first_position + found.index[-2],
        "channel": found.index[-1],
        "head": found.index[1] if len(found.index) == 4 else None,
        "augur": json_number(found.ours),
        "reference": json_number(found.reference),
        "num_differing": found.num_differing,
        "num_values": found.num_values,
        "budget": None
        if one.budget is None
        else {
            "share": json_number(one.budget.share),
            "rms_ratio": json_number(one.budget.rms_ratio),
            "complaint": one.budget.complaint,
        },
    }
