"""A picture of the worlds in motion: their scenes, each at four states seen by both cameras.

Command: python -m experiments.motion.worlds --out=docs/motion_worlds.png
Cost: 50 seconds on one CPU core, most of it compilation.
Expected: an image of 7 rows and 8 columns, the same on every call.
"""

import jax
import numpy as np
from absl import flags
from matplotlib.figure import Figure

from experiments.bench import results
from socialjepa_jax.data import MotionData
from socialjepa_jax.report import style
from socialjepa_jax.report.image_grid import Tile, image_grid
from socialjepa_jax.running import launch

WORLDS: dict[str, dict[str, object]] = {  # label -> what differs from a clean world of one toy
    "position,\nheading": {},
    "with flicker": {"flicker": 0.25},
    "with height,\nlamp": {"latents": ("x", "y", "yaw", "height", "lamp")},
    "two-link arm": {"latents": ("shoulder", "elbow"), "actions": 2, "elevation": 60.0},
    "two toys": {"latents": ("x", "y", "yaw", "x2", "y2", "yaw2")},
    "pillars": {"occluders": 3},
    "private balls": {"private": True},
}
SEED, DPI = 5, 80
LEVELS = (-2.0, -0.7, 0.7, 2.0)
"""Of every latent, one in each of the states, in an order of its own."""


def photographs(changes: dict[str, object], image_size: int = 64, samples: int = 2) -> np.ndarray:
    """Returns u8[cameras, states, H, W, C] of a world; the first latents are those of all worlds.

    Args:
        changes: fields of the world.
        image_size: H = W.
        samples: a pixel is the mean of samples x samples rays.
    """
    fields = {"flicker": 0.0, "image_size": image_size, "samples_per_pixel_side": samples}
    world = MotionData(**{**fields, **changes})  # type: ignore[arg-type]
    rng = np.random.default_rng(SEED)
    states = np.stack([rng.permutation(LEVELS) for _ in range(world.num_latents)], axis=1)
    keys = jax.random.split(jax.random.key(SEED), world.num_cameras)
    return np.stack([world.photograph(states, k, keys[k]) for k in range(world.num_cameras)])


def figure() -> Figure:
    """Draws a row for each world and a column for each camera and state."""
    rows = []
    for changes in WORLDS.values():
        first, second = photographs(changes)
        rows.append([Tile(image) for image in (*first, *second)])
    columns = [f"camera {k}\nstate {i}" for k in (0, 1) for i in range(len(LEVELS))]
    return image_grid(rows, row_labels=list(WORLDS), column_labels=columns)


def main() -> None:
    """Draws the picture."""
    out = results.out_file(flags.FLAGS.out)
    assert out is not None  # a required flag
    out.write_bytes(style.png(figure(), DPI))


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_string("out", None, "Path of the image.", required=True)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
