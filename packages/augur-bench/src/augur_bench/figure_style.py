"""One look for all figures: legible in a README, apart for eyes that see few colours."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette (2008), made to be told apart by colour-blind readers.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#6F6F6F",
)

_SETTINGS: dict[Any, Any] = {
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


def new_figure(width: float, height: float, title: str, subtitle: str) -> Figure:
    """An empty figure, in inches, with a title and the setting below it."""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.suptitle(title, fontsize=13, fontweight="bold")
        figure.supxlabel(subtitle, fontsize=8.5, color=GREY)
    return figure


def new_axes(
    figure: Figure, rows: int, columns: int, width_ratios: tuple[float, ...] | None = None
) -> list[Axes]:
    """A grid of empty axes, row by row."""
    with matplotlib.rc_context(_SETTINGS):
        grid = figure.subplots(rows, columns, squeeze=False, width_ratios=width_ratios)
        return list(grid.flat)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write `<name>.svg` and `<name>.png`."""
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(folder / f"{name}.svg")
        figure.savefig(folder / f"{name}.png", dpi=150)
