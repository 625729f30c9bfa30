"""An animation of one state in both cameras and in both latent spaces, before and after W.

The agents are the first two of the released `motion_lejepa`. They see images of 32 pixels whose
exposure and colours flicker; the cameras are drawn larger and in steady light. The path is a closed
curve that no agent was trained on, and W is fitted to 500 states that are not on it. The plane is
the one in which the second agent knows the position of the toy; the first agent's latents are
drawn in the same two coordinates.

Command: python -m experiments.motion.film --out=docs/motion.gif
Cost: one minute on one CPU core.
Expected: 72 images of 720 x 216 pixels, less than 2 MB; the paths of the agents lie apart before W
and on each other after W.

Shape key: T frames, N states, D latents, H height, W width.
"""

import dataclasses
import io

import jax
import numpy as np
from absl import flags
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from experiments.bench import results
from socialjepa_jax import alignment
from socialjepa_jax.data import MotionData
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.report import style
from socialjepa_jax.report.run.moving import gif
from socialjepa_jax.running import launch, trained

FRAMES, STATES, TRAIL, DPI, MILLISECONDS = 72, 500, 24, 80, 80
SEED = 11


@dataclasses.dataclass(frozen=True, eq=False)
class Paths:
    """What the animation shows.

    Attributes:
        shots: u8[2, T, H, W, C], the cameras' images.
        before: f64[2, T, 2], the agents' latents in the plane.
        after: f64[2, T, 2], the same with the first agent's latents mapped by W.
    """

    shots: np.ndarray
    before: np.ndarray
    after: np.ndarray


def states(frames: int) -> np.ndarray:
    """Returns a closed path of position and heading: f64[T, 3]."""
    angle_T = np.linspace(0, 2 * np.pi, frames, endpoint=False)
    x_T, y_T = 1.5 * np.sin(angle_T), 1.3 * np.sin(2 * angle_T)
    return np.stack([x_T, y_T, 1.2 * np.cos(angle_T)], axis=1)


def paths(encoders: Encoders, frames: int, count: int) -> Paths:
    """Encodes the path by both agents.

    Args:
        encoders: of a world in motion.
        frames: T.
        count: states that W and the plane are fitted to.
    """
    world = encoders.config.data
    assert isinstance(world, MotionData)
    others = np.random.default_rng(SEED).normal(size=(count, world.num_latents))
    path = states(frames)
    large = dataclasses.replace(world, flicker=0.0, image_size=96, samples_per_pixel_side=2)
    shots, latents = [], []
    for camera, key in enumerate(jax.random.split(jax.random.key(SEED), 2)):
        shots.append(large.photograph(path, camera, key, block=frames))
        both = np.concatenate([others, path])
        seen = world.photograph(both, camera, key, block=len(both))
        latents.append(encoders.encode(camera, seen).astype(np.float64))
    (x_ND, x_TD), (y_ND, y_TD) = ((z[:count], z[count:]) for z in latents)
    plane_D2 = alignment.fit(y_ND, others[:, :2]).affine()[0]
    plane_D2 = plane_D2 / np.linalg.norm(plane_D2, axis=0)
    mapped_TD = alignment.fit(x_ND, y_ND).forward(x_TD)
    drawn = [
        np.stack([(z - y_ND.mean(0)) @ plane_D2 for z in pair])
        for pair in ((x_TD, y_TD), (mapped_TD, y_TD))
    ]
    return Paths(np.stack(shots), *drawn)


@style.styled
def frame(found: Paths, t: int) -> Figure:
    """Draws one moment."""
    figure = Figure(figsize=(9.0, 2.7), layout="constrained")
    grid = figure.subplots(1, 4, width_ratios=(1, 1, 1.15, 1.15))
    for k, axes in enumerate(grid[:2]):
        axes.imshow(found.shots[k, t], interpolation="nearest")
        axes.set(xticks=[], yticks=[], title=f"camera {k}, agent {k}")
        axes.spines[:].set(visible=True, color=style.agent_color(k), linewidth=2.5)
    limit = 1.15 * max(np.abs(found.before).max(), np.abs(found.after).max())
    panels = {"latents of both agents": found.before, "after one matrix W": found.after}
    for axes, (title, path_KT2) in zip(grid[2:], panels.items()):
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", title=title)
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
        _trails(axes, path_KT2, t)
    return figure


def _trails(axes: Axes, path_KT2: np.ndarray, t: int) -> None:
    """Draws where each agent's latent is, and where it was in the last moments of the loop."""
    for k, (path_T2, width) in enumerate(zip(path_KT2, (4.0, 1.6))):
        axes.plot(*path_T2.T, ".", color=style.agent_color(k), ms=2, alpha=0.35)
        last = path_T2[np.arange(t - TRAIL, t + 1) % len(path_T2)]
        axes.plot(*last.T, color=style.agent_color(k), lw=width)
        axes.plot(*last[-1], "o", color=style.agent_color(k), ms=11 - 5 * k)


def animation(found: Paths) -> bytes:
    """Returns the GIF."""
    moments = range(found.before.shape[1])
    pictures = [Image.open(io.BytesIO(style.png(frame(found, t), DPI))) for t in moments]
    return gif([np.asarray(picture.convert("RGB")) for picture in pictures], MILLISECONDS)


def main() -> None:
    """Draws the animation."""
    out = results.out_file(flags.FLAGS.out)
    assert out is not None  # a required flag
    out.write_bytes(animation(paths(trained.load("motion_lejepa"), FRAMES, STATES)))


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_string("out", None, "Path of the GIF.", required=True)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
