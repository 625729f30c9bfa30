import io

import numpy as np
from PIL import Image

from socialjepa_jax.report import album
from socialjepa_jax.report.image_grid import Tile, image_grid


def test_a_figure_is_inlined_and_written_beside_the_page(tmp_path):
    figure = image_grid([[Tile(np.zeros((8, 8, 1), np.uint8))]])
    shown = album.Album(tmp_path / "page.html").add("dark", figure, alt="a <dark> square")
    assert 'alt="a &lt;dark&gt; square"' in shown
    with Image.open(tmp_path / "page_dark.png") as image:
        assert image.format == "PNG"


def test_a_large_image_is_made_coarser(tmp_path, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    figure = image_grid([[Tile(noise)]], width=4)
    book = album.Album(tmp_path / "page.html")
    book.add("fine", figure, alt="", dpi=100)
    monkeypatch.setattr(album, "_MAX_BYTES", 100_000)
    book.add("coarse", figure, alt="", dpi=100)
    fine, coarse = ((tmp_path / f"page_{name}.png").read_bytes() for name in ("fine", "coarse"))
    assert len(coarse) <= 100_000 < len(fine)
    assert Image.open(io.BytesIO(coarse)).width < Image.open(io.BytesIO(fine)).width
