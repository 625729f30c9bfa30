"""Images in rows and columns, as one matplotlib figure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from socialjepa_jax.report import style


@dataclass(frozen=True, eq=False)
class Tile:
    """An image in a grid.

    Attributes:
        image: uint8 [H, W, C].
        frame: Colour of its frame, "" for none.
        note: Text below it.
    """

    image: np.ndarray
    frame: str = ""
    note: str = ""


def _shown(image: np.ndarray) -> np.ndarray:
    """Returns the image as grey [H, W] or RGB [H, W, 3]; of a stereo pair, the first image."""
    return image[..., :3] if image.shape[-1] >= 3 else image[..., 0]


def _draw_tile(axes: Axes, tile: Tile, left: float, top: float, height: float) -> None:
    """Draws an image one unit wide, with the frame inside and the note below."""
    box = (left, left + 1, top + height, top)
    axes.imshow(_shown(tile.image), cmap="gray", vmin=0, vmax=255, extent=box)
    if tile.frame:
        inset = 0.02
        corner, size = (left + inset, top + inset), (1 - 2 * inset, height - 2 * inset)
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=tile.frame, linewidth=3.5))
    if tile.note:
        axes.text(left + 0.5, top + height + 0.03, tile.note, ha="center", va="top", fontsize=8)


@style.styled
def image_grid(
    rows: Sequence[Sequence[Tile | None]],
    *,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    width: float = style.FULL_WIDTH,
) -> Figure:
    """Draws images of one shape in rows and columns.

    Args:
        rows: Tiles; None leaves a gap, rows may differ in length.
        row_labels: Left of each row.
        column_labels: Above each column, one or more lines.
        width: Inches.
    """
    columns, gap = max(map(len, rows)), 0.05
    pixels = next(tile.image.shape for row in rows for tile in row if tile)
    tall = pixels[0] / pixels[1]
    left = 0.9 if row_labels else 0.05
    unit = (width - left - 0.05) / (columns + gap * (columns - 1))  # inches a tile
    note = 0.2 / unit if any(tile and tile.note for row in rows for tile in row) else 0.0
    step = tall + gap + note
    head = 0.1 + 0.17 * max((label.count("\n") + 1 for label in column_labels), default=0)
    span = len(rows) * step - gap
    height = head + span * unit + 0.05
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes(
        (left / width, 0.05 / height, 1 - (left + 0.05) / width, span * unit / height)
    )
    for r, row in enumerate(rows):
        for c, tile in enumerate(row):
            if tile:
                _draw_tile(axes, tile, c * (1 + gap), r * step, tall)
    for r, label in enumerate(row_labels):
        axes.text(-0.08, r * step + tall / 2, label, ha="right", va="center")
    for c, label in enumerate(column_labels):
        axes.text(c * (1 + gap) + 0.5, -0.06, label, ha="center", va="bottom")
    axes.set(xlim=(0, columns + gap * (columns - 1)), ylim=(span, 0), aspect="auto")
    axes.set_axis_off()
    return figure
