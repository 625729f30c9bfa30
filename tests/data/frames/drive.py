"""A recording of two cameras: folders of frames in time order, and a table of states."""

import pathlib

import numpy as np

from socialjepa_jax.data import FramesData
from socialjepa_jax.data.base import Splits
from tests.data.image_folder import encoded

COUNT, HEIGHT, WIDTH = 60, 4, 8
SPLITS = Splits(test_instances=0, test_states=0.34)


def frame(camera: int, t: int) -> np.ndarray:
    """The frame of a camera at a moment: uint8 [H, W, 3], its first pixel is (t, camera, 0)."""
    image = np.random.default_rng([camera, t]).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    image[0, 0] = t, camera, 0
    return image


def write(root: pathlib.Path, **fields) -> FramesData:
    """Writes 60 frames of two cameras, named by number, and a table in no order."""
    lines = []
    for t in range(COUNT):
        for k, camera in enumerate(("left", "right")):
            (root / camera).mkdir(parents=True, exist_ok=True)
            (root / camera / f"f_{t}.png").write_bytes(encoded(frame(k, t)))
        lines.append(f"{np.sin(t)},f_{t},{t / 10}")
    (root / "states.csv").write_text("\n".join(["turn,frame,far", *sorted(lines)]))
    given = {"image_size": (HEIGHT, WIDTH), "block": 10, "margin": 2, "splits": SPLITS}
    given |= {"table": "states.csv", "states": ("turn", "far"), "read": "resident"}
    return FramesData(path=str(root), cameras=("left", "right"), **given | fields)
