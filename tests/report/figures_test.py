import io
import math

import numpy as np
from matplotlib.text import Text
from PIL import Image

from socialjepa_jax.report import figures, style
from socialjepa_jax.report.figures import BarSeries, Level, Line


def legend_texts(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_lines_draws_what_it_is_given():
    curves = [
        Line("a", [0, 1, 2], [1.0, math.nan, 3.0], "#0072B2"),
        Line("", [0, 2], [2.0, 2.0], "#0072B2", width=0.5),
    ]
    levels = [
        Level("flat", 0.5, 0.5, 0.5, "#666666"),
        Level("band", 0.7, 0.6, 0.8, "#666666"),
        Level("unknown", math.nan, math.nan, math.nan, "#666666"),
    ]
    figure = figures.lines(curves, levels=levels, title="T", x_label="step", y_label="R2")
    (axes,) = figure.axes
    assert len(axes.lines) == 4  # two levels and two curves
    assert len(axes.patches) == 1  # the band
    assert legend_texts(figure) == ["flat", "band", "a"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("step", "R2", "T")
    np.testing.assert_array_equal(axes.lines[2].get_ydata(), [1.0, math.nan, 3.0])


def test_lines_axes():
    curve = Line("a", [1, 5, 50], [0.01, -3.0, 1.0], "#0072B2")
    figure = figures.lines([curve], log_x=True, x_ticks=(1, 5, 50), y_floor=-0.5)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and axes.get_ylim()[0] == -0.5
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "5", "50"]


def test_a_band_is_shaded_between_its_bounds():
    band = ([0.0, 1.0], [2.0, 5.0])
    figure = figures.lines([figures.Line("a", [1, 2], [1.0, 3.0], "#000", band=band)])
    (shade,) = figure.axes[0].collections
    corners = {tuple(point) for point in shade.get_paths()[0].vertices}
    assert corners == {(1, 0), (2, 1), (2, 5), (1, 2)}
    assert len(figure.axes[0].lines) == 1


def test_a_long_title_stays_within_the_figure():
    words = "A title that is much longer than one column of the page is wide, as some are"
    figure = figures.lines([Line("a", [0, 1], [0, 1], "#0072B2")], title=words)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    right = max(text.get_window_extent().x1 for text in axes.get_children() if _is_title(text))
    assert right <= figure.bbox.width
    assert axes.get_title(loc="left").split() == words.split()


def _is_title(artist):
    return isinstance(artist, Text) and artist.get_text().startswith("A title")


def test_log_ticks_are_plain_numbers():
    figure = figures.lines([Line("a", [0, 1], [0.12, 0.9], "#0072B2")], log_y=True)
    style.png(figure)
    shown = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert {"0.2", "0.5"} <= set(shown)


def test_bars_are_labelled_and_gaps_stay_empty():
    series = [
        BarSeries("one", [0.5, -0.25], "#0072B2"),
        BarSeries("two", [1.0, math.nan], "#D55E00"),
    ]
    figure = figures.bars(("A", "B"), series, y_label="score")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["0.50", "\u22120.25", "1.00", ""]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["A", "B"]
    assert legend_texts(figure) == ["one", "two"]


def test_matched_pairs_joins_each_pair():
    x, y = np.zeros((4, 2)), np.arange(8.0).reshape(4, 2)
    groups = np.array([0, 0, 2, 1])
    figure = figures.matched_pairs(x, y, groups, ("a", "b", "c"), names=("here", "there"))
    (axes,) = figure.axes
    joined, filled, hollow = axes.collections
    np.testing.assert_array_equal(joined.get_segments(), np.stack([x, y], axis=1))
    np.testing.assert_array_equal(filled.get_offsets(), x)
    np.testing.assert_array_equal(hollow.get_offsets(), y)
    assert legend_texts(figure) == ["a", "b", "c", "here", "there"]


def test_square_limits_hold_all_points_with_a_margin():
    limits = figures.square_limits(np.array([[0.0, 0.0], [2.0, 1.0]]), np.array([[10.0, 5.0]]))
    assert limits == (-0.5, 10.5, -3.0, 8.0)


def test_png_is_an_image_and_deterministic():
    def render():
        return style.png(figures.lines([Line("a", [0, 1], [0, 1], "#0072B2")]), dpi=50)

    first = render()
    assert first == render()
    assert Image.open(io.BytesIO(first)).size == (200, 155)
