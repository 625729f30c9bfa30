"""DMC Reacher as a data set: pairs of successive images of the arm, and states to measure on.

The two conditions of "When Does LeJEPA Learn a World Model?", section 5.3: joint angles that follow
an Ornstein-Uhlenbeck process, and joint angles of goal-directed episodes.

Shape key: K cameras, N states, P pairs, G poses, E episodes, T moments, H height, W width, C
channels.
"""

import dataclasses
import functools
import pathlib
from typing import Any, ClassVar

import jax
import numpy as np

from socialjepa_jax import dynamics
from socialjepa_jax.data.base import Splits, ViewDataset, world_dataset
from socialjepa_jax.data.protocols import Opening
from socialjepa_jax.data.reacher import rendering, trajectories
from socialjepa_jax.data.reacher.grid import Grid
from socialjepa_jax.data.toys.moving import PoolFeed
from socialjepa_jax.errors import (
    InputError,
    check_divides,
    check_inside,
    check_non_negative,
    check_one_of,
    check_positive,
)

NAMES = ("shoulder", "wrist")
_STATES = 0  # folded into the key of the world
_HELD_OUT = 4  # one of so many episodes is measured on, the others make pairs


@dataclasses.dataclass(frozen=True)
class ReacherData:
    """The arm of DMC Reacher (`hard`, the target at rest) before several cameras.

    Attributes:
        kind: "reacher".
        tilts, turns: of the cameras, see `rendering.Camera`; by default the suite's own camera,
            and one that sees the arm from the side.
        grid: numbers of shoulder and wrist angles that are rendered, see `Grid`.
        image_size: H = W, pixels; divides 64.
        process: "ou": both joints follow an Ornstein-Uhlenbeck process of unit variance |
            "trajectory": moments of goal-directed episodes.
        rho: correlation of successive states of "ou", one value or one for each joint.
        stride: moments between the states of a pair of "trajectory".
        trajectories: `.npz` file of the episodes; "": those of a built-in controller.
        trajectory_key: name of its array, f[E, T, 2], radians.
        pool: pairs of an agent, drawn by the agent's seed.
        states: states N to measure on, half of which maps are fitted on; of episodes that no pair
            is taken from.
        splits: `test_states` of the N states are held out; there are no objects to hold out.
        seed: of the states.
    """

    transition: ClassVar[str] = "motion"
    flicker: ClassVar[float] = 0.0
    channels: ClassVar[int] = 3

    kind: str = "reacher"
    tilts: tuple[float, ...] = (0.0, 45.0)
    turns: tuple[float, ...] = (0.0, 90.0)
    grid: tuple[int, int] = (192, 96)
    image_size: int = 32
    process: str = "ou"
    rho: tuple[float, ...] = (0.9,)
    stride: int = 8
    trajectories: str = ""
    trajectory_key: str = "qpos"
    pool: int = 12_000
    states: int = 4_000
    splits: Splits = Splits(test_instances=0, test_states=0.5)
    seed: int = 0

    def __post_init__(self) -> None:
        check_one_of(("reacher",), kind=self.kind)
        check_one_of(("ou", "trajectory"), process=self.process)
        check_positive(
            pool=self.pool, states=self.states, stride=self.stride, image_size=self.image_size
        )
        check_non_negative(seed=self.seed)
        check_divides(self.image_size, image_size=rendering.SIZE)
        if not self.tilts or len(self.tilts) != len(self.turns):
            raise InputError(
                f"tilts={self.tilts} and turns={self.turns} must be those of one or more cameras"
            )
        if len(set(self.cameras)) < len(self.cameras):
            raise InputError(f"tilts={self.tilts}, turns={self.turns}: two cameras are one")
        _ = Grid(self.grid)  # checks it
        for rho in self.rho:
            check_inside(0.0, 1.0, rho=rho)
        if len(self.rho) not in (1, 2):
            raise InputError(f"rho={self.rho} must be 1 or 2 correlations")
        if self.splits.test_instances:
            raise InputError(
                f"splits.test_instances={self.splits.test_instances} must be 0: no objects"
            )

    @property
    def cameras(self) -> tuple[rendering.Camera, ...]:
        """The cameras as they are rendered."""
        return tuple(rendering.Camera(*angles) for angles in zip(self.tilts, self.turns))

    @property
    def num_cameras(self) -> int:
        """K."""
        return len(self.tilts)

    @property
    def latents_in_view(self) -> int:
        """Number of latents that one camera sees."""
        return len(NAMES)

    @property
    def pair_shape(self) -> tuple[int, int, int, int]:
        """(F, H, W, C) of the frames of a pair."""
        return 2, self.image_size, self.image_size, self.channels

    def episodes(self, folder: pathlib.Path) -> np.ndarray:
        """Returns the joint angles of all episodes, f64[E, T, 2]."""
        return trajectories.episodes(self.trajectories, self.trajectory_key, folder)

    def world(self, folder: pathlib.Path, held_out: bool = False) -> tuple[Any, Any]:
        """Returns the process of the states and its arrays.

        Args:
            folder: of the cache.
            held_out: the episodes that are measured on, not those that make pairs.

        Raises:
            InputError: the episodes are too few or too short.
        """
        if self.process == "ou":
            process = dynamics.OrnsteinUhlenbeck(len(NAMES))
            return process, process.params(self.rho)
        chosen = self.episodes(folder)
        if len(chosen) < _HELD_OUT:
            raise InputError(f"trajectories={self.trajectories}: only {len(chosen)} episodes")
        measured = np.arange(len(chosen)) % _HELD_OUT == 0
        recorded = dynamics.Recorded(len(NAMES), self.stride)
        return recorded, recorded.params(chosen[measured == held_out])

    def images(self, camera: int, folder: pathlib.Path) -> np.ndarray:
        """Returns all poses of the grid as one camera sees them: u8[G, H, W, C].

        Args:
            camera: number of the camera.
            folder: of the cache; rendering takes 10 to 15 ms an image, once.

        Raises:
            InputError: they are not in the cache, and cannot be rendered here.
        """
        return Grid(self.grid).images(self.cameras[camera], folder, self.image_size)

    def measured(self, folder: pathlib.Path) -> np.ndarray:
        """Draws the states that are measured on: f64[N, 2], of the grid."""
        process, params = self.world(folder, held_out=True)
        key = jax.random.fold_in(jax.random.key(self.seed), _STATES)
        return Grid(self.grid).round(np.asarray(process.stationary(params, key, self.states)))

    def load(self, cache_dir: pathlib.Path) -> ViewDataset:
        """Draws the states that are measured on, as all cameras see them.

        Args:
            cache_dir: folder of the rendered images.
        """
        states = self.measured(cache_dir)
        rows = Grid(self.grid).index(states)
        images = [self.images(k, cache_dir)[rows] for k in range(self.num_cameras)]
        states = states.astype(np.float32)
        return world_dataset(self.kind, np.stack(images), states, NAMES, self.splits)

    def open_feed(self, dataset: ViewDataset, opening: Opening) -> "ReacherFeed":
        """Opens the feed of a run; see `data.protocols.Data`."""
        return ReacherFeed(self, dataset, opening)


class ReacherFeed(PoolFeed):
    """Feeds pairs of images of the arm; see `data.protocols.ImageFeed`."""

    _data: ReacherData

    def __init__(self, data: ReacherData, dataset: ViewDataset, opening: Opening) -> None:
        """Draws the pairs of all agents; see `PoolFeed`."""
        self._images_of = functools.cache(lambda camera: data.images(camera, opening.cache))
        super().__init__(data, dataset, opening)
        self._images_of.cache_clear()  # training needs the pairs alone

    def _frames(self, agent: int) -> np.ndarray:
        """Takes the frames u8[P, 2, H, W, C] of an agent's pairs from the grid."""
        images, grid = self._images_of(self.cameras[agent]), Grid(self._data.grid)
        process, params = self._data.world(self._opening.cache)
        pairs = process.views(params, self.pool_key(agent), self._data.pool)
        self._opening.check()
        return np.stack([images[grid.index(np.asarray(z))] for z in pairs], axis=1)
