"""The ladder: what each rung gains, beside what it costs."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from augur_bench.figure_style import BLUE, GREEN, ORANGE, PURPLE, new_axes, new_figure
from augur_bench.texts import exact, quantity

# Numbers stand behind the bars.
_ROOM_FOR_LABELS = 1.32


def ladder_figure(result: dict[str, Any], subtitle: str) -> Figure:
    """Three bars for each rung: decode rate, time to first token, largest logit difference."""
    rungs = result["rungs"]
    figure = new_figure(12, 2.4 + 0.4 * len(rungs), "The ladder", subtitle)
    decode, first_token, difference = new_axes(figure, 1, 3)
    _bars(decode, rungs, [rung["decode_tokens_per_s"] for rung in rungs], BLUE)
    decode.set_title("Decode rate, tokens/s (more is better)")
    decode.set_yticks(range(len(rungs)), [rung["name"] for rung in rungs])
    _bars(first_token, rungs, [rung["ttft_s"] for rung in rungs], GREEN)
    first_token.set_title("Time to first token, s (less is better)")
    first_token.set_yticks(range(len(rungs)), [])
    _difference_bars(difference, rungs)
    return figure


def _bars(
    axes: Axes, rungs: list[dict[str, Any]], spreads: list[dict[str, float] | None], color: str
) -> None:
    """Medians as bars, the range as a whisker, the number behind it."""
    for row, (rung, spread) in enumerate(zip(rungs, spreads, strict=True)):
        if spread is None:
            axes.text(0, row, " not measured", va="center")
            continue
        whisker = [[spread["median"] - spread["low"]], [spread["high"] - spread["median"]]]
        axes.barh(
            row,
            spread["median"],
            xerr=whisker,
            color=PURPLE if rung["peer"] else color,
            error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": "#333333"},
            height=0.62,
        )
        axes.annotate(
            quantity(spread["median"]),
            (spread["high"], row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    highest = max((spread["high"] for spread in spreads if spread is not None), default=1.0)
    axes.set_xlim(0, highest * _ROOM_FOR_LABELS)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    _finish(axes, len(rungs))


def _difference_bars(axes: Axes, rungs: list[dict[str, Any]]) -> None:
    differences = [rung["exactness"]["max_abs_diff"] for rung in rungs]
    above_zero = [value for value in differences if value > 0]
    left = min(above_zero, default=1e-6) / 10
    right = max(above_zero, default=1e-6)
    for row, value in enumerate(differences):
        if value > 0:
            axes.barh(row, value - left, left=left, color=ORANGE, height=0.62)
        label = exact(value) if value > 0 else "0: bit for bit"
        axes.annotate(
            label,
            (max(value, left), row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(left, right * (right / left) ** 0.4)
    axes.set_yticks(range(len(rungs)), [])
    axes.set_title("Largest logit difference (less is better)")
    _finish(axes, len(rungs))


def _finish(axes: Axes, num_rungs: int) -> None:
    axes.set_ylim(num_rungs - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
