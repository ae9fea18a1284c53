"""The pictures: legible, whatever a run has and has not."""

import copy
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from augur_bench.figures import growth_figure, ladder_figure
from augur_bench.report import report_text
from augur_bench.roofline import roofline_figure

SUBTITLE = "some-model-7b-instruct on Some CPU, 2 threads; 35 prompt tokens, 32 new tokens"


def drawn_texts(figure):
    """All texts but the tick labels outside an axis's range, which exist and are not drawn."""
    undrawn = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    undrawn.add(tick.label1)
    texts = figure.findobj(Text)
    return [text for text in texts if text.get_text().strip() and text not in undrawn]


def labels_of(figure):
    """What is written in a figure, and where, in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    labels = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in drawn_texts(figure)
        if text.get_visible()
    ]
    return labels, figure.bbox


def assert_legible(figure):
    labels, figure_box = labels_of(figure)
    assert len(labels) > 10
    for text, box in labels:
        assert figure_box.x0 <= box.x0, text
        assert box.x1 <= figure_box.x1 + 1, text
    for (one, one_box), (other, other_box) in combinations(labels, 2):
        assert not one_box.padded(-1).overlaps(other_box.padded(-1)), f"{one!r} over {other!r}"


@pytest.fixture
def long_result(result):
    """As many rungs as a full run has, with names as long as ours get."""
    full = copy.deepcopy(result)
    for index in range(7):
        rung = copy.deepcopy(full["rungs"][0])
        rung["name"] = f"rung-with-long-name-{index}"
        rung["exactness"]["max_abs_diff"] = 10.0 ** (index - 6)
        full["rungs"].append(rung)
    return full


@pytest.mark.gate
def test_no_label_covers_another(long_result):
    assert_legible(ladder_figure(long_result, SUBTITLE))
    assert_legible(roofline_figure(long_result, SUBTITLE))
    for name, sweep in long_result["sweeps"].items():
        assert_legible(growth_figure(name, sweep, SUBTITLE))


@pytest.mark.gate
def test_axes_have_titles_and_units(long_result):
    for figure in (
        ladder_figure(long_result, SUBTITLE),
        roofline_figure(long_result, SUBTITLE),
        growth_figure("prompt", long_result["sweeps"]["prompt"], SUBTITLE),
    ):
        assert figure.get_suptitle()
        assert all(axes.get_title() for axes in figure.axes)
    roofline = roofline_figure(long_result, SUBTITLE)
    assert [axes.get_xlabel() for axes in roofline.axes] == [
        "FLOP to be done for each byte to be read",
        "%",
    ]


def test_a_run_of_one_token_has_pictures_without_a_decode_rate(result):
    short = copy.deepcopy(result)
    for rung in short["rungs"]:
        rung["decode_tokens_per_s"] = None
        rung["token_s"] = {"p50": None, "p95": None}
        rung["share"]["decode"] = None
        rung["gain"] = None
    assert_legible(ladder_figure(short, SUBTITLE))
    assert_legible(roofline_figure(short, SUBTITLE))
    assert "| - |" in report_text(short)


def test_the_slope_is_seen_where_every_pass_is_bound_by_arithmetic(long_result):
    slow, ridge = copy.deepcopy(long_result), 0.1
    for spread in slow["limits"]["flops_per_s"].values():
        spread |= {"high": ridge * slow["limits"]["bytes_per_s"]["high"]}
    figure = roofline_figure(slow, SUBTITLE)
    assert_legible(figure)
    roofline = figure.axes[0]
    assert roofline.get_xlim()[0] <= ridge / 4 * (1 + 1e-9)  # the quotient is rounded
    slope = roofline.lines[0].get_xydata()
    assert list(slope[:, 0]) == sorted(slope[:, 0])
    assert slope[0, 1] == pytest.approx(slope[1, 1] * slope[0, 0] / ridge)


def test_the_roofline_names_each_mark_and_cuts_none(long_result):
    roofline, shares = roofline_figure(long_result, SUBTITLE).axes
    names = [label.get_text() for label in shares.get_yticklabels()]
    assert names == [rung["name"] for rung in long_result["rungs"]]

    def marks_of(axes):
        lines = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
        assert not any(line.get_clip_on() for line in lines)
        return [(line.get_marker(), line.get_markeredgecolor()) for line in lines]

    # In the row of its name stands the mark that stands in the roofline.
    assert marks_of(shares) == marks_of(roofline)
    assert len(set(marks_of(shares))) == len(names)
