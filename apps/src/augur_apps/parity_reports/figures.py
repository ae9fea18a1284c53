"""How figures are written, in tables, in sentences and in JSON."""

import math


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
