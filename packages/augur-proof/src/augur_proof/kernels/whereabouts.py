"""Where something is wrong, in words."""

from torch import Tensor


def whereabouts(wrong: Tensor, axes: tuple[str, ...]) -> str:
    """Along which axes the wrong values keep to a part, and to which; "everywhere" if to none.

    Args:
        wrong: bool, true where a value is wrong, at least once.
        axes: the name of each dimension.
    """
    parts = []
    for dim, axis in enumerate(axes):
        others = [other for other in range(wrong.dim()) if other != dim]
        touched = wrong.any(dim=others) if others else wrong
        places = touched.nonzero().flatten().tolist()
        part = _part(places, len(touched))
        if part:
            parts.append(f"{axis} {part}")
    return ", ".join(parts) or "everywhere"


def _part(places: list[int], size: int) -> str:
    """Which of `size` indices they are; nothing where they are all or too scattered to say."""
    first, last, count = places[0], places[-1], len(places)
    if count == size:
        return ""
    if count == 1:
        return f"{first}"
    step = places[1] - first
    if count != 1 + (last - first) // step or places != list(range(first, last + 1, step)):
        return f"{first} to {last}, {count} of them" if count < size / 2 else ""
    if step > 1:
        return f"{first}, {first + step} and so on"
    if last == size - 1:
        return f"{first} and on"
    return f"{first} to {last}"
