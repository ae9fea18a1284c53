"""Growth curves: what a sweep found, cached beside uncached."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from augur_bench.figure_style import BLUE, GREEN, GREY, VERMILION, new_axes, new_figure

_AXIS = {"prompt": "prompt tokens", "new-tokens": "new tokens"}
_LENGTH = {"prompt": "prompt_tokens", "new-tokens": "new_tokens"}


def growth_figure(name: str, sweep: dict[str, Any], subtitle: str) -> Figure:
    """Prefill, decode, their ratio and the cache's memory over the length that grows."""
    points = sweep["points"]
    lengths = [point[_LENGTH[name]] for point in points]
    figure = new_figure(10, 7, f"Growth with {_AXIS[name]}", subtitle)
    prefill, decode, ratio, memory = new_axes(figure, 2, 2)
    for label, key, color, marker in (
        ("uncached", "uncached", VERMILION, "s"),
        ("cached", "cached", BLUE, "o"),
    ):
        _curve(prefill, lengths, [p[f"{key}_prefill_s"] for p in points], 1, color, marker, label)
        _curve(decode, lengths, [p[f"{key}_token_s"] for p in points], 1e3, color, marker, label)
    prefill.set_title("Prefill, s")
    decode.set_title("Decode, ms a token")
    for axes in (prefill, decode):
        axes.legend(frameon=False)
    _curve(ratio, lengths, [p["decode_ratio"] for p in points], 1, GREEN, "D", "ratio")
    ratio.set_title("Cached decodes so many times faster")
    megabytes = [point["cache_bytes"] / 1e6 for point in points]
    memory.plot(lengths, megabytes, color=GREY, marker="^")
    memory.set_title("Cache memory, MB")
    for axes in (prefill, decode, ratio, memory):
        axes.set_xlabel(_AXIS[name])
        # From 0, both ways: what is linear then looks it.
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    return figure


def _curve(
    axes: Axes,
    lengths: list[int],
    spreads: list[dict[str, float]],
    scale: float,
    color: str,
    marker: str,
    label: str,
) -> None:
    medians = [spread["median"] * scale for spread in spreads]
    below = [(spread["median"] - spread["low"]) * scale for spread in spreads]
    above = [(spread["high"] - spread["median"]) * scale for spread in spreads]
    axes.errorbar(
        lengths,
        medians,
        yerr=[below, above],
        color=color,
        marker=marker,
        capsize=3,
        label=label,
    )
