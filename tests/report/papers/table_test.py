import pytest

from socialjepa_jax.report.papers.table import PaperTable

TABLE = PaperTable("P", 3, "title", ("a", "b"), {"x": (1, "text"), "y": (None,)})


def test_cells_are_addressed_by_row_and_column():
    assert TABLE.row("x") == {"a": 1, "b": "text"} and TABLE.value("x", "a") == 1.0


def test_a_text_cell_is_not_a_number():
    with pytest.raises(KeyError, match="P, Table 3: 'x', 'b' is 'text'"):
        TABLE.value("x", "b")


def test_a_row_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        TABLE.row("y")
