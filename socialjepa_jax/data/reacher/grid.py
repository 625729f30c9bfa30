"""All poses of the arm on a grid, rendered once; every condition takes its images from there.

Both angles are periodic in the image, so the poses are a torus, and a grid of it has fewer images
than the pairs of two correlations. Angles are rounded to the grid, and a state of the data set is
the rounded angle (with its turns), so an image shows exactly its state.

Shape key: N states, S shoulder angles, V wrist angles, H height, W width.
"""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Iterator

import numpy as np

from socialjepa_jax.data import cache
from socialjepa_jax.data.reacher import rendering
from socialjepa_jax.errors import InputError

_ROWS = 8  # shoulder angles in one file of the cache


@dataclasses.dataclass(frozen=True)
class Grid:
    """A grid over the angles of shoulder and wrist.

    Attributes:
        shape: (S, V). The wrist moves the finger half as far as the shoulder of a stretched arm.
    """

    shape: tuple[int, int] = (192, 96)

    def __post_init__(self) -> None:
        if min(self.shape) < 8 or self.shape[0] % _ROWS:
            raise InputError(
                f"grid={self.shape} must be 8 or more, the first a multiple of {_ROWS}"
            )

    @property
    def pitch(self) -> np.ndarray:
        """Distance of neighbours, radians: f64[2]."""
        return 2 * np.pi / np.array(self.shape)

    def round(self, states_N2: np.ndarray) -> np.ndarray:
        """Rounds angles f[..., 2] to the grid: f64, turns kept."""
        return np.round(np.asarray(states_N2, np.float64) / self.pitch) * self.pitch

    def index(self, states_N2: np.ndarray) -> np.ndarray:
        """Returns the rows i64[...] of `images` that show angles f[..., 2]."""
        steps = np.round(np.asarray(states_N2, np.float64) / self.pitch).astype(np.int64)
        return np.ravel_multi_index(tuple(np.moveaxis(steps, -1, 0)), self.shape, mode="wrap")

    def images(
        self, camera: rendering.Camera, folder: pathlib.Path, size: int = rendering.SIZE
    ) -> np.ndarray:
        """Returns all poses as a camera sees them: uint8[S V, size, size, 3].

        Args:
            camera: rendered in files of some shoulder angles each, so that an interrupted
                rendering goes on where it stopped.
            folder: of the cache.
            size: pixels; divides those of a rendered image.

        Raises:
            InputError: images are missing from the cache, and MuJoCo or a renderer too.
        """
        facts = (
            self.shape,
            camera,
            rendering.VERSION,
            rendering.TARGET,
            rendering.RADIUS,
            rendering.SHADOW_MAP,
        )
        name = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
        start = str(folder / "reacher" / name)
        if size == rendering.SIZE:
            return np.concatenate([*self._parts(camera, start)])

        def small() -> np.ndarray:
            return np.concatenate([shrink(part, size) for part in self._parts(camera, start)])

        return cache.cached_array(pathlib.Path(f"{start}_{size}_pixels.npy"), small)

    def _parts(self, camera: rendering.Camera, start: str) -> Iterator[np.ndarray]:
        """Yields the rendered images of some shoulder angles each, from files of this start."""
        angles = (np.arange(n) * pitch for n, pitch in zip(self.shape, self.pitch))
        poses_SV2 = np.stack(np.meshgrid(*angles, indexing="ij"), axis=-1)
        for first in range(0, self.shape[0], _ROWS):
            poses = poses_SV2[first : first + _ROWS].reshape(-1, 2)
            render = functools.partial(rendering.photograph, poses, camera)
            yield cache.cached_array(pathlib.Path(f"{start}_{first:05d}.npy"), render)


def shrink(images_NHWC: np.ndarray, size: int) -> np.ndarray:
    """Makes images u8 smaller: every pixel is the rounded mean of a square of them."""
    count, side, _, channels = images_NHWC.shape
    step = side // size
    squares = images_NHWC.reshape(count, size, step, size, step, channels)
    return np.round(squares.mean((2, 4), dtype=np.float32)).astype(np.uint8)
