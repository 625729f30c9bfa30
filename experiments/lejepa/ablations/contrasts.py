"""Statements of the paper's tables 1 and 4 on which setting is better, and by how much."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from socialjepa_jax.report.papers import lejepa as paper
from socialjepa_jax.report.papers.table import PaperTable


@dataclass(frozen=True)
class Contrast:
    """A statement of a table: one group of settings is better than another.

    Attributes:
        name: of the claim; begins with the table's key.
        better, worse: columns that select our rows.
        printed: the paper's table.
        cells: "row|column" patterns of the printed cells of the better and of the worse settings.
    """

    name: str
    better: Mapping[str, Any]
    worse: Mapping[str, Any]
    printed: PaperTable
    cells: tuple[str, str]

    @property
    def table(self) -> str:
        """Key of `TABLES`."""
        return self.name.partition("/")[0]

    @property
    def paper(self) -> float:
        """The paper's difference, of accuracies as shares."""
        better, worse = (self._printed_mean(pattern) for pattern in self.cells)
        return better - worse

    def _printed_mean(self, pattern: str) -> float:
        cells = [
            self.printed.value(row, column)
            for row in self.printed.rows
            for column in self.printed.columns
            if re.fullmatch(pattern, f"{row}|{column}")
            and self.printed.row(row)[column] is not None
        ]
        return float(np.mean(cells)) / 100


CONTRASTS = (
    Contrast(
        "1a/domain [-3, 3] over [-1, 1]",
        {"t_max": 3.0, "slices": 1.0},
        {"t_max": 1.0},
        paper.QUADRATURE,
        (r"\[-3.*", r"\[-1.*"),
    ),
    Contrast(
        "1a/17 knots over 5",
        {"knots": 17, "slices": 1.0},
        {"knots": 5},
        paper.QUADRATURE,
        (r".*\|17", r".*\|5"),
    ),
    Contrast(
        "1a/most slices over fewest",
        {"slices": 4.0},
        {"slices": 0.125},
        paper.QUADRATURE,
        (r".* 2048\|.*", r".* 512\|.*"),
    ),
    Contrast(
        "1b/two global views over one",
        {"global views": 2},
        {"global views": 1},
        paper.VIEWS,
        (r"[48]\|2", r"[48]\|1"),
    ),
    Contrast(
        "1b/eight views over four",
        {"global views": 2, "views": 8},
        {"global views": 2, "views": 4},
        paper.VIEWS,
        (r"8\|2", r"4\|2"),
    ),
    Contrast(
        "1c/largest batch over smallest",
        {"batch over default": 2.0},
        {"batch over default": 0.5},
        paper.BATCH_SIZE,
        (r".*\|512", r".*\|128"),
    ),
    Contrast(
        "1d/small projection over large",
        {"dimension over width": 0.25},
        {"dimension over width": 2.0},
        paper.PROJECTOR,
        (r"64\|.*", r"1024\|.*"),
    ),
    Contrast(
        "1e/four registers over none",
        {"registers": 4},
        {"registers": 0},
        paper.REGISTERS,
        (r".*\|4", r".*\|0"),
    ),
    Contrast(
        "4/averaged centres over online, no predictor",
        {"swa": True, "predictor": False},
        {"swa": False, "predictor": False},
        paper.HEADS,
        (r"swa\|vit.*", r"plain\|vit.*"),
    ),
    Contrast(
        "4/no predictor over one",
        {"predictor": False},
        {"predictor": True},
        paper.HEADS,
        (r"(plain|swa)\|vit.*", r"predictor.*\|vit.*"),
    ),
    Contrast(
        "4/three projector layers over one",
        {"projector layers": 3},
        {"projector layers": 1},
        paper.HEADS,
        (r".*\|vit.* 3", r".*\|vit.* 1"),
    ),
)
