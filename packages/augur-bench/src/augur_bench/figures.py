"""The ladder and its growth as pictures, in the look that all figures share.

Legible in a README, and apart for eyes that see few colours.
"""

from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from augur_bench.sheets import exact, quantity

# Okabe and Ito's palette (2008), made to be told apart by colour-blind readers.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#6F6F6F")
BLUE, VERMILION, GREEN, ORANGE, PURPLE, GREY = COLORS
_LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    # Outlines, so that another machine's fonts cannot push labels into each other.
    "svg.fonttype": "path",
}
# Numbers stand behind the bars.
_ROOM_FOR_LABELS = 1.32


def new_figure(
    title: str, subtitle: str, size: tuple[float, float], rows: int, columns: int, **grid: Any
) -> tuple[Figure, list[Axes]]:
    """Empty axes, row by row, under a title and above the setting; the size is in inches."""
    with matplotlib.rc_context(_LOOK):
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(title, fontsize=13, fontweight="bold")
        figure.supxlabel(subtitle, fontsize=8.5, color=GREY)
        return figure, list(figure.subplots(rows, columns, squeeze=False, **grid).flat)


def rows_of_rungs(axes: Axes, rungs: list[dict[str, Any]], *, named: bool) -> None:
    """One row for each rung, the first on top."""
    axes.set_yticks(range(len(rungs)), [rung["name"] if named else "" for rung in rungs])
    axes.set_ylim(len(rungs) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, pad=8)  # marks on the axis are whole


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write `<name>.svg` and `<name>.png`."""
    with matplotlib.rc_context(_LOOK):
        figure.savefig(folder / f"{name}.svg")
        figure.savefig(folder / f"{name}.png", dpi=150)


def ladder_figure(result: dict[str, Any], subtitle: str) -> Figure:
    """Three bars for each rung: decode rate, time to first token, largest logit difference."""
    rungs = result["rungs"]
    size = 12, 2.4 + 0.4 * len(rungs)
    figure, (decode, first_token, difference) = new_figure("The ladder", subtitle, size, 1, 3)
    _bars(decode, rungs, "decode_tokens_per_s", BLUE)
    decode.set_title("Decode rate, tokens/s (more is better)")
    _bars(first_token, rungs, "ttft_s", GREEN)
    first_token.set_title("Time to first token, s (less is better)")
    _difference_bars(difference, [rung["exactness"]["max_abs_diff"] for rung in rungs])
    difference.set_title("Largest logit difference (less is better)")
    for axes in (decode, first_token, difference):
        rows_of_rungs(axes, rungs, named=axes is decode)
        axes.grid(visible=False, axis="y")
    return figure


def growth_figure(name: str, sweep: dict[str, Any], subtitle: str) -> Figure:
    """Prefill, decode, their ratio and the cache's memory over the length that grows."""
    points, length = sweep["points"], "prompt tokens" if name == "prompt" else "new tokens"
    figure, panels = new_figure(f"Growth with {length}", subtitle, (10, 7), 2, 2)
    prefill, decode, ratio, memory = panels

    lengths = [point[length.replace(" ", "_")] for point in points]

    def curve(axes: Axes, key: str, scale: float, color: str, marker: str, label: str = "") -> None:
        low, middle, high = (
            [scale * point[key][end] for point in points] for end in ("low", "median", "high")
        )
        below = [one - other for one, other in zip(middle, low, strict=True)]
        above = [one - other for one, other in zip(high, middle, strict=True)]
        axes.errorbar(
            lengths, middle, yerr=[below, above], capsize=3, color=color, marker=marker, label=label
        )

    for rung, color, marker in (("uncached", VERMILION, "s"), ("cached", BLUE, "o")):
        curve(prefill, f"{rung}_prefill_s", 1, color, marker, rung)
        curve(decode, f"{rung}_token_s", 1e3, color, marker, rung)
    curve(ratio, "decode_ratio", 1, GREEN, "D")
    memory.plot(lengths, [point["cache_bytes"] / 1e6 for point in points], color=GREY, marker="^")
    titles = "Prefill, s", "Decode, ms a token", "Cached decodes so many times faster"
    for axes, title in zip(panels, (*titles, "Cache memory, MB"), strict=True):
        axes.set_title(title)
        axes.set_xlabel(length)
        # From 0, both ways: what is linear then looks it.
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    prefill.legend(frameon=False)
    decode.legend(frameon=False)
    return figure


def throughput_figure(points: list[dict[str, Any]], subtitle: str) -> Figure:
    """Tokens per second in all, and the median time to first token, over the sequences."""
    figure, (rate, wait) = new_figure("Many sequences at once", subtitle, (10, 4.4), 1, 2)
    names = list(dict.fromkeys(point["rung"] for point in points))
    for name, color, marker in zip(names, cycle(COLORS), cycle("osD^vP"), strict=False):
        own = [point for point in points if point["rung"] == name]
        numbers = [point["num_sequences"] for point in own]
        rates = [point["tokens_per_s"] for point in own]
        middle = [one["median"] for one in rates]
        ranges = [[one["median"] - one["low"] for one in rates]]
        ranges.append([one["high"] - one["median"] for one in rates])
        style: dict[str, Any] = {"color": color, "marker": marker, "label": name}
        rate.errorbar(numbers, middle, yerr=ranges, capsize=3, **style)
        wait.plot(numbers, [point["ttft_s"]["p50"] for point in own], **style)
    rate.set_title("Tokens/s in all (more is better)")
    wait.set_title("Time to first token, s, median (less is better)")
    for axes in (rate, wait):
        axes.set_xlabel("sequences")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    rate.legend(frameon=False)
    return figure


def _bars(axes: Axes, rungs: list[dict[str, Any]], key: str, color: str) -> None:
    """Medians as bars, the range as a whisker, the number behind it."""
    highest = 0.0
    for row, rung in enumerate(rungs):
        spread = rung[key]
        if spread is None:
            axes.text(0, row, " not measured", va="center")
            continue
        axes.barh(
            row,
            spread["median"],
            xerr=[[spread["median"] - spread["low"]], [spread["high"] - spread["median"]]],
            color=PURPLE if rung["peer"] else color,
            error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": "#333333"},
            height=0.62,
        )
        _label(axes, quantity(spread["median"]), spread["high"], row)
        highest = max(highest, spread["high"])
    axes.set_xlim(0, (highest or 1) * _ROOM_FOR_LABELS)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _difference_bars(axes: Axes, differences: list[float]) -> None:
    above_zero = [value for value in differences if value > 0]
    left = min(above_zero, default=1e-6) / 10
    right = max(above_zero, default=1e-6)
    for row, value in enumerate(differences):
        if value > 0:
            axes.barh(row, value - left, left=left, color=ORANGE, height=0.62)
        _label(axes, exact(value) if value > 0 else "0: bit for bit", max(value, left), row)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(left, right * (right / left) ** 0.4)


def _label(axes: Axes, text: str, x: float, row: int) -> None:
    axes.annotate(text, (x, row), xytext=(6, 0), textcoords="offset points", va="center")
