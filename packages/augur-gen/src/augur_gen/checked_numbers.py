"""What is taken for a number: those of any library, but no bool, which Python counts as one."""

import math
import numbers
import operator


def integer(value: object) -> int | None:
    """The value as an int; None if it is no integer."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def real(value: object) -> float | None:
    """The value as a float, or as the int it is; None if it is no real number, or NaN.

    Infinities are real here; whoever does not want them says so.
    """
    whole = integer(value)
    if whole is not None:
        return whole
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or math.isnan(value):
        return None
    return float(value)
