"""Reads a page back: its tables by row and column name, its figures through what they draw."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from socialjepa_jax.report.album import Album


@dataclass
class Cell:
    """A cell's number, the small print under it, and whether it is bold."""

    text: str = ""
    small: str = ""
    bold: bool = False


@dataclass
class Table:
    """A table: `cells[row label][column title]`, the titles without their arrows."""

    columns: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    caption: str = ""

    def texts(self):
        return {
            label: {column: cell.text for column, cell in row.items()}
            for label, row in self.cells.items()
        }


class Page(HTMLParser):
    """Collects tables, tiles, and plain text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tiles, self.text = [], {}, ""
        self._open, self._cell, self._row, self._tile = [], None, [], ["", ""]
        self.feed(text)
        self.text = " ".join(self.text.split())

    def named(self, start):
        """Returns the only table whose caption or corner begins so."""
        found = [
            table
            for table in self.tables
            if table.caption.startswith(start) or table.columns[0].startswith(start)
        ]
        assert len(found) == 1, [start, [table.caption for table in self.tables]]
        return found[0]

    def handle_starttag(self, tag, attrs):
        if tag in ("meta", "img", "br"):
            return
        self._open.append((tag, dict(attrs).get("class")))
        if tag == "table":
            self.tables.append(Table())
        elif tag == "tr":
            self._row = []
        elif tag in ("th", "td"):
            self._cell = Cell()
            self._row.append(self._cell)
        elif tag == "strong" and self._cell:
            self._cell.bold = True

    def handle_endtag(self, tag):
        _, kind = self._open.pop()
        if tag in ("th", "td"):
            self._cell = None
        elif tag == "tr":
            self._end_row()
        elif kind == "tile":
            number, name = self._tile
            self.tiles[name], self._tile = number, ["", ""]

    def _end_row(self):
        table = self.tables[-1]
        if not table.columns:
            table.columns = [cell.text.rstrip(" \N{NO-BREAK SPACE}↑↓") for cell in self._row]
            return
        label, *cells = self._row
        assert label.text not in table.cells and len(cells) == len(table.columns) - 1
        table.cells[label.text] = dict(zip(table.columns[1:], cells))

    def handle_data(self, data):
        tags = [tag for tag, _ in self._open]
        if self._cell is not None:
            name = "small" if "small" in tags else "text"
            setattr(self._cell, name, getattr(self._cell, name) + data)
        elif "figcaption" in tags and "table" in [kind for _, kind in self._open]:
            self.tables[-1].caption += data
        elif "tile" in [kind for _, kind in self._open]:
            self._tile[0 if "b" in tags else 1] += data
        if "style" not in tags:
            self.text += data + " "


def shown(value, digits=3):
    """How a page writes a number below 100."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def watched(monkeypatch):
    """Returns a dict that will hold the figures of pages by name."""
    figures, add = {}, Album.add

    def keep(self, name, figure, **options):
        figures[name] = figure
        return add(self, name, figure, **{**options, "dpi": 20})

    monkeypatch.setattr(Album, "add", keep)
    return figures


def curves(figure):
    """Label -> (x, y) of the labelled lines of a figure, levels among them."""
    (axes,) = figure.axes
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    assert len({line.get_label() for line in lines}) == len(lines)
    return {line.get_label(): line.get_data() for line in lines}
