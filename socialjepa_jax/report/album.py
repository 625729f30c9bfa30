"""The pictures of a page: inlined in it, and written as files beside it."""

from pathlib import Path

from matplotlib.figure import Figure

from socialjepa_jax.report import html, style


class Album:
    """Writes `<page>_<name>.png` for every figure of a page.

    Args:
        page: Path of the HTML file that will show the pictures.
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
        """Saves the figure as PNG and returns it as HTML; `alt` is read to those who cannot see."""
        data = style.png(figure, dpi)
        self._page.with_name(f"{self._page.stem}_{name}.png").write_bytes(data)
        return html.picture(data, alt, caption, full=full)
