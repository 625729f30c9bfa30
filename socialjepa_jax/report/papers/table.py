"""A table as a paper prints it."""

from collections.abc import Mapping
from dataclasses import dataclass

Value = float | str | None  # None: an empty cell


@dataclass(frozen=True)
class PaperTable:
    """One printed table, whose values are addressed by row and column.

    Attributes:
        paper: Short name of the paper.
        number: The table's number in the paper.
        title: Shortened from its caption.
        columns: Column identifiers, in the printed order.
        rows: Row identifier -> one value for each column.
    """

    paper: str
    number: int
    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Value, ...]]

    def row(self, row: str) -> dict[str, Value]:
        """Returns a row as column -> value. Raises `KeyError` if there is none."""
        return dict(zip(self.columns, self.rows[row], strict=True))

    def value(self, row: str, column: str) -> float:
        """Returns the number in a cell. Raises `KeyError` if there is none."""
        value = self.row(row)[column]
        if not isinstance(value, int | float):
            raise KeyError(f"{self.paper}, Table {self.number}: {row!r}, {column!r} is {value!r}")
        return float(value)
