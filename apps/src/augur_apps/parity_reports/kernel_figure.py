"""A kernel's trial as a picture: error in units of the budget, and speed beside the limit."""

from pathlib import Path

from matplotlib.axes import Axes

from augur_bench.figures import BLUE, GREY, ORANGE, VERMILION, new_figure, save
from augur_proof.kernels import Outcome, Rate, dtype_name

_COLORS = {"float32": BLUE, "bfloat16": ORANGE, "float16": GREY}
_HIGHEST = 1e6
"""What is wrong beyond measure, not finite or against a rule, is drawn there."""


def draw_kernel(
    folder: Path, title: str, name: str, lines: list[tuple[Outcome, Rate | None]]
) -> None:
    """Write `<name>.svg` and `<name>.png`: a point for each workload, worst last."""
    timed = [rate for _, rate in lines if rate is not None]
    columns = 2 if timed else 1
    figure, axes = new_figure(title, "each point is a workload", (5.5 * columns, 4.5), 1, columns)
    _draw_errors(axes[0], [outcome for outcome, _ in lines])
    if timed:
        _draw_rates(axes[1], [(o, rate) for o, rate in lines if rate is not None])
    save(figure, folder, name)


def _dtype(outcome: Outcome) -> str:
    return dtype_name(outcome.workload.dtype)


def _draw_errors(axes: Axes, outcomes: list[Outcome]) -> None:
    ordered = sorted(outcomes, key=lambda one: one.share)
    for dtype, color in _COLORS.items():
        places = [place for place, one in enumerate(ordered) if _dtype(one) == dtype]
        # A share of 0 has no place on a logarithmic axis.
        shares = [min(max(ordered[place].share, 1e-2), _HIGHEST) for place in places]
        if places:
            axes.scatter(places, shares, s=14, color=color, label=dtype)
    axes.axhline(1, color=VERMILION, linewidth=1.2, label="allowed")
    axes.set_yscale("log")
    axes.set_ylim(bottom=8e-3)
    axes.set_title("Error, in units of the budget")
    axes.set_xlabel("workloads, in order of error")
    axes.legend(frameon=False, fontsize=8)


def _draw_rates(axes: Axes, lines: list[tuple[Outcome, Rate]]) -> None:
    """Achieved against possible; FLOP/s where arithmetic is the limit, GB/s elsewhere."""
    by_arithmetic = sum(rate.bound == "arithmetic" for _, rate in lines) * 2 > len(lines)

    def work(rate: Rate) -> float:
        return (rate.flops if by_arithmetic else rate.bytes_moved) / 1e9

    for dtype, color in _COLORS.items():
        of_dtype = [rate for outcome, rate in lines if _dtype(outcome) == dtype]
        if of_dtype:
            sizes = [rate.bytes_moved for rate in of_dtype]
            axes.scatter(
                sizes, [work(r) / r.seconds for r in of_dtype], s=14, color=color, label=dtype
            )
    rates = sorted((rate for _, rate in lines), key=lambda rate: rate.bytes_moved)
    possible = [work(rate) / max(rate.memory_seconds, rate.arithmetic_seconds) for rate in rates]
    axes.plot(
        [rate.bytes_moved for rate in rates],
        possible,
        color=VERMILION,
        linewidth=1,
        label="the machine's limit",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("bytes moved")
    axes.set_title("Achieved GFLOP/s" if by_arithmetic else "Achieved GB/s")
    axes.legend(frameon=False, fontsize=8)
