"""The roofline (Williams, Waterman and Patterson, 2009): how near each rung comes to the limits."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from augur_bench.figures import COLORS, new_figure, rows_of_rungs
from augur_bench.sheets import quantity

_MARKERS = "osD^vP*X<>hp"
# Beyond that there is no room for three labels in each.
_FEW_DECADES = 1e3
_ROOF: dict[str, Any] = {"color": "#333333", "linewidth": 1.4}
# Of labels: over the slope, which may go on behind them, and, by their order, under the marks.
_LABEL: dict[str, Any] = {
    "textcoords": "offset points",
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1},
    "zorder": 2.5,
}


def roofline_figure(result: dict[str, Any], subtitle: str) -> Figure:
    """FLOP/s over FLOP/byte under the machine's roofs; beside it each point's share of its roof.

    The marks that stand beside the rungs' names there are those of the roofline.
    """
    size = 12.5, max(5.6, 2.2 + 0.36 * len(result["rungs"]))
    title = "Roofline: hollow is decode, filled is prefill"
    figure, (roofline, shares) = new_figure(title, subtitle, size, 1, 2, width_ratios=(3, 2))
    _draw_roofline(roofline, result)
    _draw_shares(shares, result["rungs"])
    return figure


def _draw_roofline(axes: Axes, result: dict[str, Any]) -> None:
    bandwidth, ceilings = result["limits"]["bytes_per_s"]["high"] / 1e9, _ceilings(result)
    points = [
        (index, phase, *_point(result, rung, phase))
        for index, rung in enumerate(result["rungs"])
        for phase, share in rung["share"].items()
        if share is not None
    ]
    intensities = [intensity for _, _, intensity, _ in points]
    # Some of the slope is always seen, also where every pass is bound by arithmetic.
    left = min(*intensities, min(ceilings) / bandwidth) / 4
    right = max(intensities) * 4
    for ceiling, dtypes in sorted(ceilings.items()):
        ridge = ceiling / bandwidth
        roof = [left * bandwidth, ceiling, ceiling]
        axes.plot([left, ridge, max(right, ridge)], roof, **_ROOF)
        text = f"{quantity(ceiling)} GFLOP/s ({', '.join(sorted(dtypes))})"
        axes.annotate(text, (right, ceiling), xytext=(-4, 5), ha="right", **_LABEL)
    text = f"{quantity(bandwidth)} GB/s"
    axes.annotate(text, (left, left * bandwidth), xytext=(30, 4), va="bottom", **_LABEL)
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


def _draw_shares(axes: Axes, rungs: list[dict[str, Any]]) -> None:
    highest = 1.0
    for index, rung in enumerate(rungs):
        for phase, share in rung["share"].items():
            if share is not None:
                spread = share["of_roofline"]
                ends = [100 * spread["low"], 100 * spread["high"]]
                axes.plot(ends, [index] * 2, color=COLORS[index % len(COLORS)])
                _draw_point(axes, 100 * spread["median"], index, index, phase)
                highest = max(highest, spread["high"])
    axes.axvline(100, **_ROOF)
    axes.set_xlim(0, 108 * highest)
    rows_of_rungs(axes, rungs, named=True)
    axes.set_xlabel("%")
    axes.set_title("Share of the nearer limit")


def _draw_point(axes: Axes, x: float, y: float, index: int, phase: str) -> None:
    color = COLORS[index % len(COLORS)]
    axes.plot(
        x,
        y,
        clip_on=False,  # whole also where it lies on an axis, such as a share near 0
        zorder=3,
        marker=_MARKERS[index % len(_MARKERS)],
        markersize=8,
        markeredgecolor=color,
        markerfacecolor=color if phase == "prefill" else "white",
        markeredgewidth=1.8,
    )


def _point(result: dict[str, Any], rung: dict[str, Any], phase: str) -> tuple[float, float]:
    """FLOP/byte, and GFLOP/s reached."""
    work = result["work"][rung["dtype"]][phase]
    rate = rung["decode_tokens_per_s"]
    seconds = rung["prefill_s"]["median"] if phase == "prefill" else 1 / rate["median"]
    return work["flops"] / work["num_bytes"], work["flops"] / seconds / 1e9


def _ceilings(result: dict[str, Any]) -> dict[float, list[str]]:
    """GFLOP/s, and the dtypes that they hold back."""
    limits = result["limits"]["flops_per_s"]
    rates = {dtype: spread["high"] / 1e9 for dtype, spread in limits.items()}
    # Narrow dtypes are held against float32's roof where their own products are slower.
    ceilings: dict[float, list[str]] = {}
    for dtype in {rung["dtype"] for rung in result["rungs"]}:
        ceilings.setdefault(max(rates[dtype], rates["float32"]), []).append(dtype)
    return ceilings
