"""How a setting and its figures are written, in tables, in sentences and in JSON."""

import math

from rich.console import Console

from augur_proof import Demand, MadeWith


def print_setting(
    console: Console,
    ours: MadeWith,
    reference: MadeWith,
    demand: Demand,
    demanded: str,
    *notes: str,
) -> None:
    """Who is compared with whom, what is demanded, in words with a place for it, and notes."""
    allowed = f"{demand.tolerance}"
    if demand.budget and demand.near_ties_may_part:
        allowed = "a budget: 1.25 + 0.75 / sqrt(rows) of the reference's own error"
    elif demand.budget:
        allowed += ", and an op on trial within a budget of the plain op's own error"
    why = f", for {'; '.join(demand.reasons)}" if demand.reasons else ""
    lines = (
        f"augur      {ours.model}: {ours.line}",
        f"reference  {reference.model}: {reference.line}",
        f"demand     {demanded.format(f'{allowed}{why}')}",
        *notes,
    )
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def short(value: float) -> str:
    """Three digits; a plain 0 for exactly zero alone."""
    return f"{value:.3g}"


def ulps_cell(ulps: int | None) -> str:
    """A count for a table, a dash where there is none."""
    if ulps is None:
        return "-"
    return f"{ulps:,}" if ulps < 1_000_000 else f"{ulps:.1e}"


def ulps_text(ulps: int | None) -> str:
    """ " (3 ULPs)"; nothing where there is no such count."""
    return "" if ulps is None else f" ({ulps_cell(ulps)} ULP{'' if ulps == 1 else 's'})"


def json_number(value: float) -> float | str:
    """JSON has no infinity and no NaN; they are written as text."""
    return value if math.isfinite(value) else str(value)
