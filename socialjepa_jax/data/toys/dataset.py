"""The toy dataset: smallNORB's factor grid over rendered objects, so nothing is downloaded."""

import dataclasses
import functools
import hashlib
import inspect
import itertools
import json
import pathlib
import sys
import time

import jax.numpy as jnp
import numpy as np
from absl import logging

from socialjepa_jax.data import base, cache
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.toys import creatures, parts, raycast, vehicles, world
from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)

_BLOCK = 512  # images rendered by one call


@dataclasses.dataclass(frozen=True)
class ToysData:
    """Dataset of rendered objects under smallNORB's factors.

    Attributes:
        kind: "toys".
        instances: objects in each of the five categories.
        image_size: side of the images in pixels.
        channels: 1 (grey) or 3 (RGB).
        protocol: which images show the same state; only the azimuths it needs are rendered.
        splits: what is held out.
        seed: seed of the objects; another seed is another world of the same kind.
        elevations: levels of `world.ELEVATIONS`, 30 to 70 degrees in steps of 5.
        lightings: levels of `world.LIGHTINGS`.
        azimuth_step: "rig" protocol: degrees between the pose azimuths in the sector.
        samples_per_pixel_side: a pixel is the mean of this number squared of rays.
        baseline: if above 0, each camera is a stereo pair at this distance (in units of the
            object's radius; the camera stands 5 away). The right image's channels follow the left
            image's.
    """

    kind: str = "toys"
    instances: int = 10
    image_size: int = 96
    channels: int = 1
    protocol: base.Protocol = base.Protocol()
    splits: base.Splits = base.Splits()
    seed: int = 0
    elevations: tuple[int, ...] = tuple(range(len(world.ELEVATIONS)))
    lightings: tuple[int, ...] = tuple(range(len(world.LIGHTINGS)))
    azimuth_step: int = 20
    samples_per_pixel_side: int = 2
    baseline: float = 0.0

    def __post_init__(self) -> None:
        check_one_of(("toys",), kind=self.kind)
        check_positive(instances=self.instances, image_size=self.image_size)
        check_one_of((1, 3), channels=self.channels)
        check_non_negative(seed=self.seed)
        for name, levels in (("elevations", world.ELEVATIONS), ("lightings", world.LIGHTINGS)):
            chosen = getattr(self, name)
            if not chosen or len(set(chosen)) < len(chosen):
                raise InputError(f"{name}={chosen} must be one or more distinct levels")
            for level in chosen:
                check_in_range(0, len(levels) - 1, **{name: level})
        check_in_range(1, 360, azimuth_step=self.azimuth_step)
        check_in_range(1, 16, samples_per_pixel_side=self.samples_per_pixel_side)
        check_in_range(0, 2, baseline=self.baseline)

    @property
    def num_cameras(self) -> int:
        """Cameras that see every state."""
        return len(self.protocol.azimuths)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Renders the images, or reads them from the cache, and pairs the views.

        Args:
            cache_dir: folder of the rendered images; made if missing.

        Returns:
            The view dataset.
        """
        factors = self.observations()
        path = pathlib.Path(cache_dir) / f"toys-{self._digest(factors)}.npy"
        images = cache.cached_array(path, functools.partial(self.render, factors))
        table = base.ObservationTable(images, factors, world.FACTOR_NAMES, world.CATEGORIES)
        return pair_views(table, self.protocol, self.splits, self.kind)

    def observations(self) -> np.ndarray:
        """Lists the images that the protocol needs, sorted.

        Returns:
            Factors i32[M, 5], columns `world.FACTOR_NAMES`.
        """
        grid = itertools.product(
            range(len(world.CATEGORIES)),
            range(self.instances),
            sorted(self.elevations),
            self._azimuths(),
            sorted(self.lightings),
        )
        return np.array(list(grid), np.int32)

    def render(self, factors: np.ndarray) -> np.ndarray:
        """Renders images of the given observations.

        Args:
            factors: i32[M, 5], columns `world.FACTOR_NAMES`, any rows of the grid.

        Returns:
            uint8 [M, H, W, C].
        """
        start = time.perf_counter()
        bodies = world.all_bodies(self.instances, self.seed)
        blocks = []
        for first in range(0, len(factors), _BLOCK):
            block = factors[first : first + _BLOCK]
            # The last block repeats its last image so that all have one shape: one compilation.
            full = np.pad(block, ((0, min(_BLOCK, len(factors)) - len(block)), (0, 0)), "edge")
            images = world.render_factors(
                bodies,
                jnp.asarray(full),
                image_size=self.image_size,
                channels=self.channels,
                samples=self.samples_per_pixel_side,
                baseline=self.baseline,
            )
            blocks.append(np.asarray(images)[: len(block)])
        seconds = time.perf_counter() - start
        logging.info("toys: %d images rendered in %.1f s", len(factors), seconds)
        return np.concatenate(blocks)

    def _azimuths(self) -> list[int]:
        """Returns the azimuths in degrees of all views that the protocol needs."""
        if self.protocol.kind == "norb":
            return sorted(self.protocol.azimuths)
        low, high = self.protocol.sector
        poses = [pose for pose in range(0, 360, self.azimuth_step) if low <= pose < high]
        return sorted({(pose + turn) % 360 for pose in poses for turn in self.protocol.azimuths})

    def _digest(self, factors: np.ndarray) -> str:
        """Returns a digest of everything the images depend on, including the rendering code."""
        names = ("seed", "image_size", "channels", "samples_per_pixel_side", "baseline")
        values = {name: getattr(self, name) for name in names}
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
        digest.update(factors.tobytes())
        for module in (raycast, parts, creatures, vehicles, world, sys.modules[__name__]):
            digest.update(inspect.getsource(module).encode())
        return digest.hexdigest()[:32]
