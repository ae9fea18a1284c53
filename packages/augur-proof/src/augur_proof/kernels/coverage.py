"""Which combinations of sizes an op is tried on: every size and kind, not every product of them."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from augur_proof.published_sizes import PUBLISHED

LENGTHS = (1, 2, 15, 17, 99, 257, 1023)
"""No round numbers only: blocks of 16, 64, 128 and 256 all end in the middle."""
BATCHES = (1, 2, 5)
WIDTHS = tuple(sorted({sizes[1] for sizes in PUBLISHED.values()}))
"""hidden_size of the published models."""
INTERMEDIATES = tuple(sorted({sizes[2] for sizes in PUBLISHED.values()}))
HEADS = ((1, 1, 64), *sorted({(sizes[3], sizes[4], sizes[5]) for sizes in PUBLISHED.values()}))
"""num_heads, num_kv_heads, head_dim; and heads that do not share."""
VOCABULARIES = tuple(sorted({sizes[6] for sizes in PUBLISHED.values()}))


def spread(
    count: int, choices: Mapping[str, Sequence[Any]], fits: Callable[..., bool]
) -> list[dict[str, Any]]:
    """At least `count` combinations in which every choice that fits occurs, each about as often.

    Args:
        count: combinations; more follow until nothing is left out.
        choices: name -> what there is to choose from.
        fits: called with a combination as keyword arguments: whether it is small enough.

    Returns:
        the same for the same arguments.
    """
    rng = random.Random(0)
    used: Counter[tuple[str, Any]] = Counter()
    chosen: list[dict[str, Any]] = []
    left = {(name, value) for name, values in choices.items() for value in values}
    # A choice that fits with nothing else would be sought forever.
    for _ in range(1000):
        if len(chosen) >= count and not left:
            return chosen
        tries = [{name: rng.choice(values) for name, values in choices.items()} for _ in range(200)]
        fitting = [one for one in tries if fits(**one)]
        rarest = min(fitting, key=lambda one: sum(used[item] ** 2 for item in one.items()))
        if len(chosen) >= count:
            rarest = max(fitting, key=lambda one: len(left & set(one.items())))
        chosen.append(rarest)
        used.update(rarest.items())
        left -= set(rarest.items())
    raise ValueError(f"these fit with nothing else: {sorted(left, key=str)}")
