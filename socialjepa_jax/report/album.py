"""Figures of a page, inlined in the page and written as PNG files beside it."""

from pathlib import Path

from matplotlib.figure import Figure

from socialjepa_jax.report import html, style

_MAX_BYTES, _MIN_DPI = 700_000, 40  # a page of a dozen figures stays below 3 MB


class Album:
    """Writes `<page>_<name>.png` for every figure of a page, coarser if the file would be large.

    Args:
        page: Path of the HTML file that will show the figures.
    """

    def __init__(self, page: Path) -> None:
        self._page = page

    def add(
        self,
        name: str,
        figure: Figure,
        *,
        alt: str,
        caption: str = "",
        full: bool = False,
        dpi: int = 180,
    ) -> html.Html:
        """Saves a figure as PNG and returns it as HTML.

        Args:
            name: Part of the file's name.
            figure: A matplotlib figure.
            alt: Description for readers who cannot see the image.
            caption: Text below the image.
            full: Span all columns of the page.
            dpi: Dots per inch; lowered until the file is small enough.
        """
        data = style.png(figure, dpi)
        while len(data) > _MAX_BYTES and dpi > _MIN_DPI:
            dpi = dpi * 2 // 3
            data = style.png(figure, dpi)
        self._page.with_name(f"{self._page.stem}_{name}.png").write_bytes(data)
        return html.figure(data, alt, caption, full=full)
