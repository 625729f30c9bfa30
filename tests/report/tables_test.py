import math

import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.report.tables import (
    Column,
    Interval,
    Row,
    Table,
    best_rows,
    format_cell,
    format_number,
    to_html,
    to_markdown,
)

R2 = Column("r2", "R2", 2, "max", "how <much>")
ERROR = Column("error", "Error", 1, "min")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.12345, 3, "0.123"),
        (-0.5, 2, "\u22120.50"),
        (math.nan, 3, "n/a"),
        (math.inf, 3, "∞"),
        (-math.inf, 3, "\u2212∞"),
        (None, 3, "\u2013"),
        (12, 3, "12"),
        (1234.5678, 3, "1234.6"),
        (99614.2, 1, "1.0e5"),
        (3.14e17, 1, "3.1e17"),
        (32.0, 0, "32"),
    ],
)
def test_format_number(value, digits, text):
    assert format_number(value, digits) == text


def test_intervals_that_print_alike_are_one_number():
    assert format_cell(Interval(0.5, 0.25, 0.75), 2) == "0.50 [0.25, 0.75]"
    assert format_cell(Interval(0.5, 0.5001, 0.4999), 2) == "0.50"


def test_best_is_judged_as_displayed_among_ranked_finite_rows():
    rows = [
        Row("a", {"r2": 0.501, "error": math.nan}),
        Row("b", {"r2": Interval(0.504, 0.0, 1.0), "error": 3.0}),
        Row("ceiling", {"r2": 0.9, "error": 0.1}, ranked=False),
        Row("c", {"r2": "text", "error": 2.0}),
        Row("d", {"r2": 0.4}),
    ]
    table = Table((R2, ERROR), rows)
    assert best_rows(table, R2) == {0, 1}
    assert best_rows(table, ERROR) == {3}
    assert best_rows(Table((R2,), rows[:1]), R2) == set()  # nothing to compare with
    assert best_rows(Table((R2,), rows[:2]), R2) == set()  # both are shown as 0.50


def test_markdown():
    rows = [Row("a|b", {"r2": 0.5}), Row("c", {"r2": 0.25, "error": 1.0})]
    expected = (
        "| name | R2 | Error |\n| --- | ---: | ---: |\n"
        "| a\\|b | **0.50** | \u2013 |\n| c | 0.25 | 1.0 |\n\nsays\n"
    )
    assert to_markdown(Table((R2, ERROR), rows, "name", "says")) == expected


def test_html_escapes_marks_the_best_and_keeps_every_cell():
    rows = [Row("<b>", {"r2": Interval(0.5, 0.4, 0.6)}, note="a & b"), Row("c", {"r2": 0.25})]
    page = to_html(Table((R2, ERROR), rows, caption="<i>"))
    assert "<b>" not in page and "<i>" not in page and "how &lt;much&gt;" in page
    assert "<td><strong>0.50</strong><small>[0.40, 0.60]</small></td>" in page
    assert page.count("<td>") == 4 and page.count('scope="row"') == 2


def test_unknown_direction_is_refused():
    with pytest.raises(InputError, match="best='up'"):
        Column("r2", "R2", best="up")
