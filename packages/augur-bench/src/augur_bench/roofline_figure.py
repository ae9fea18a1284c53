"""The roofline (Williams, Waterman and Patterson, 2009): how near each rung comes to the limits."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from augur_bench.figure_style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    new_axes,
    new_figure,
)
from augur_bench.texts import quantity

_COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, GREY)
_MARKERS = "osD^vP*X<>hp"
_PHASES = ("decode", "prefill")
_KEY_COLUMNS = 3
# Beyond that there is no room for three labels in each.
_FEW_DECADES = 1e3
# Of labels: over the slope, which may go on behind them, and, by their order, under the marks.
_ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}


def roofline_figure(result: dict[str, Any], subtitle: str) -> Figure:
    """FLOP/s over FLOP/byte under the machine's roofs; beside it each point's share of its roof."""
    height = max(5.6, 2.2 + 0.36 * len(result["rungs"]))
    figure = new_figure(12.5, height, "Roofline: hollow is decode, filled is prefill", subtitle)
    roofline, shares = new_axes(figure, 1, 2, width_ratios=(3, 2))
    _draw_roofline(roofline, result)
    _draw_shares(shares, result)
    return figure


def _draw_roofline(axes: Axes, result: dict[str, Any]) -> None:
    points = [
        (index, phase, *_point(result, rung, phase))
        for index, rung in enumerate(result["rungs"])
        for phase in _PHASES
        if rung["share"][phase] is not None
    ]
    intensities = [intensity for _, _, intensity, _ in points]
    left, right = min(intensities) / 4, max(intensities) * 4
    ceilings = _ceilings(result)
    # Some of the slope is always seen, also where every pass is bound by arithmetic.
    left = min(left, min(ceilings) / _bandwidth(result) / 4)
    _draw_roofs(axes, ceilings, _bandwidth(result), left, right)
    for index, phase, intensity, rate in points:
        _draw_point(axes, intensity, rate, index, phase)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, (low, high) in ((axes.xaxis, (left, right)), (axes.yaxis, axes.get_ylim())):
        subs = (1, 2, 5) if high / low < _FEW_DECADES else (1,)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlim(left, right)
    axes.set_xlabel("FLOP to be done for each byte to be read")
    axes.set_ylabel("GFLOP/s")
    axes.set_title("What the machine allows, and what was reached")
    _draw_key(axes, result)


def _draw_key(axes: Axes, result: dict[str, Any]) -> None:
    """Which mark is which rung, below the axes, where no point can lie."""
    handles = [
        Line2D([], [], linestyle="none", label=rung["name"], **_mark(index, "prefill"))
        for index, rung in enumerate(result["rungs"])
    ]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=_KEY_COLUMNS,
        frameon=False,
    )


def _draw_shares(axes: Axes, result: dict[str, Any]) -> None:
    rungs = result["rungs"]
    highest = 1.0
    for index, rung in enumerate(rungs):
        for phase in _PHASES:
            if rung["share"][phase] is None:
                continue
            spread = rung["share"][phase]["of_roofline"]
            color = _COLORS[index % len(_COLORS)]
            axes.plot([100 * spread["low"], 100 * spread["high"]], [index] * 2, color=color)
            _draw_point(axes, 100 * spread["median"], index, index, phase)
            highest = max(highest, spread["high"])
    axes.axvline(100, color="#333333", linewidth=1.4)
    axes.set_xlim(0, 108 * highest)
    axes.set_yticks(range(len(rungs)), [rung["name"] for rung in rungs])
    axes.set_ylim(len(rungs) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("%")
    axes.set_title("Share of the nearer limit")


def _draw_point(axes: Axes, x: float, y: float, index: int, phase: str) -> None:
    # Whole also where it lies on an axis, such as a share near 0.
    axes.plot(x, y, clip_on=False, zorder=3, **_mark(index, phase))


def _mark(index: int, phase: str) -> dict[str, Any]:
    """How a rung's phase is marked."""
    color = _COLORS[index % len(_COLORS)]
    return {
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 8,
        "markeredgecolor": color,
        "markerfacecolor": color if phase == "prefill" else "white",
        "markeredgewidth": 1.8,
    }


def _point(result: dict[str, Any], rung: dict[str, Any], phase: str) -> tuple[float, float]:
    """FLOP/byte, and GFLOP/s reached."""
    work = result["work"][rung["dtype"]]
    if phase == "decode":
        flops, num_bytes = work["decode_flops_per_token"], work["decode_bytes_per_token"]
        return flops / num_bytes, flops * rung["decode_tokens_per_s"]["median"] / 1e9
    flops = work["prefill_flops_per_token"] * result["workload"]["prompt_tokens"]
    return flops / work["prefill_bytes"], flops / rung["prefill_s"]["median"] / 1e9


def _bandwidth(result: dict[str, Any]) -> float:
    """GB/s."""
    bandwidth: float = result["limits"]["bytes_per_s"]["high"] / 1e9
    return bandwidth


def _ceilings(result: dict[str, Any]) -> dict[float, list[str]]:
    """GFLOP/s, and the dtypes that they hold back."""
    limits = result["limits"]["flops_per_s"]
    rates = {dtype: spread["high"] / 1e9 for dtype, spread in limits.items()}
    # Narrow dtypes are held against float32's roof where their own products are slower.
    ceilings: dict[float, list[str]] = {}
    for dtype in {rung["dtype"] for rung in result["rungs"]}:
        ceilings.setdefault(max(rates[dtype], rates["float32"]), []).append(dtype)
    return ceilings


def _draw_roofs(
    axes: Axes, ceilings: dict[float, list[str]], bandwidth: float, left: float, right: float
) -> None:
    """The slope that memory sets, and a ceiling for each dtype that has its own."""
    for ceiling, dtypes in sorted(ceilings.items()):
        ridge = ceiling / bandwidth
        axes.plot(
            [left, ridge, max(right, ridge)],
            [left * bandwidth, ceiling, ceiling],
            color="#333333",
            linewidth=1.4,
        )
        axes.annotate(
            f"{quantity(ceiling)} GFLOP/s ({', '.join(sorted(dtypes))})",
            (right, ceiling),
            xytext=(-4, 5),
            textcoords="offset points",
            ha="right",
            bbox=_ON_WHITE,
            zorder=2.5,
        )
    axes.annotate(
        f"{quantity(bandwidth)} GB/s",
        (left, left * bandwidth),
        xytext=(30, 4),
        textcoords="offset points",
        va="bottom",
        bbox=_ON_WHITE,
        zorder=2.5,
    )
