"""A folder of PNG files with a table of their factors."""

import io
import itertools
import pathlib

import numpy as np
from PIL import Image

from socialjepa_jax.data import base
from socialjepa_jax.data.folder import FolderData

SPLITS = base.Splits(test_instances=1, test_states=0.25)
RIG = base.Protocol("rig", azimuths=(0, 180), sector=(0, 180))


def encoded(image: np.ndarray | Image.Image, form: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(stream, form, **options)
    return stream.getvalue()


def random_image(number: int, side: int = 8) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (side, side, 3), np.uint8)


def write_table(folder: pathlib.Path) -> FolderData:
    """2 categories x 3 objects x 4 azimuths as PNG files with a table, in no order."""
    grid = list(itertools.product(("cup", "animal"), ("b", "a", "9"), (0, 90, 180, 270)))
    lines = ["azimuth,what,thing,file"]
    (folder / "images").mkdir()
    for number, (category, instance, azimuth) in enumerate(grid):
        name = f"images/{number}.png"
        (folder / name).write_bytes(encoded(random_image(number)))
        lines.append(f"{azimuth},{category},{instance},{name}")
    (folder / "table.csv").write_text("\n".join([lines[0], *sorted(lines[1:])]))
    columns = (("category", "what"), ("instance", "thing"), ("azimuth", "azimuth"))
    return FolderData(
        path=str(folder), table="table.csv", columns=columns, image_size=8, protocol=RIG,
        splits=SPLITS,
    )  # fmt: skip
