"""One picture, two views: each of two cameras sees every picture, changed by a recipe of its own.

The protocol of Social-JEPA A.3 on ImageNet: "we train two models with two different augmentation
recipes and evaluate alignment on paired augmentations of the same underlying image". A camera is a
recipe. In training an agent sees a new draw of its camera's recipe each time; evaluations, controls
and reports see one fixed draw per camera and picture, made from the number of the picture.

Shape key: A agents, K cameras, N states, B batch, H height, W width, C channels.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding
from socialjepa_jax.data.augment import VIEW_A, VIEW_B, Augment, augment
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.base import Protocol, ViewDataset
from socialjepa_jax.data.protocols import Batch, ImageFeed, Opening
from socialjepa_jax.data.records.viewed import Views, fixed
from socialjepa_jax.data.streaming import open_images
from socialjepa_jax.errors import InputError
from socialjepa_jax.keys import step_keys

_FACT = (
    "Both cameras see every picture, each through an augmentation of its own. Agents train on "
    "fresh draws; all that is measured and shown is one fixed draw for each camera and picture."
)


@dataclasses.dataclass(frozen=True)
class TwoViews:
    """Two cameras that see every picture through a recipe each.

    Attributes:
        on: if false, pictures are seen as they are.
        a, b: augmentation of the first and of the second camera; those of Social-JEPA A.3.
    """

    on: bool = False
    a: Augment = VIEW_A
    b: Augment = VIEW_B

    def num_cameras(self, protocol: Protocol) -> int:
        """Number of cameras: two, or those of the protocol.

        Raises:
            InputError: views are on, and the protocol has several cameras itself.
        """
        if self.on and len(protocol.azimuths) > 1:
            raise InputError(
                f"protocol.azimuths={protocol.azimuths} must be one camera where views.on=True"
            )
        return 2 if self.on else len(protocol.azimuths)

    def of(self, dataset: ViewDataset) -> ViewDataset:
        """Returns the data set as the two cameras see it, or as it is if `on` is false."""
        if not self.on:
            return dataset
        numbers = np.tile(dataset.state_ids, (2, 1))
        cameras = np.arange(2)[:, None].repeat(dataset.num_states, axis=1)
        images = dataset.images
        in_memory = isinstance(images, np.ndarray)
        twice = np.broadcast_to(images, (2, *images.shape[1:])) if in_memory else images[[0, 0]]
        views = Views(twice, cameras, numbers, (self.a, self.b))
        facts = *dataset.facts, ("Views", _FACT)
        return dataclasses.replace(dataset, images=views, facts=facts)

    def open_feed(
        self, dataset: ViewDataset, opening: Opening, workers: int, max_broken: float
    ) -> ImageFeed:
        """Opens the feed of what `of` returned; see `streaming.open_images`."""
        if not isinstance(dataset.images, Views):
            return open_images(dataset, opening, workers, max_broken)
        views = dataset.images
        plain = dataclasses.replace(
            opening, cameras=(0,) * len(opening.cameras), augmentation=Augment()
        )
        pictures = dataclasses.replace(dataset, images=views.pictures[:1])
        return ViewFeed(open_images(pictures, plain, workers, max_broken), views, opening)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["pictures", "camera"],
    meta_fields=["recipes", "augmentation"],
)
@dataclasses.dataclass(frozen=True)
class ViewSource:
    """Batches of pictures as each agent's camera sees them; a `Source`.

    Attributes:
        pictures: the source of the pictures as they are.
        camera: i32[A], of each agent, an index into `recipes`.
        recipes: of the cameras.
        augmentation: of the run, applied to what a camera sees.
    """

    pictures: Any
    camera: jax.Array
    recipes: tuple[Augment, ...]
    augmentation: Augment = Augment()

    def specs(self) -> "ViewSource":
        """Returns the shardings: those of the pictures, and cameras split over agents."""
        camera: Any = P(sharding.AGENT)
        return dataclasses.replace(self, pictures=self.pictures.specs(), camera=camera)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's part of an agent's batch; see `data.protocols.Source`."""
        batch = self.pictures.batch(step, seed, batch_size)
        mean_C, std_C = batch["mean"], batch["std"]
        images_BHWC = batch["image"] * std_C[None, None, None] + mean_C[None, None, None]
        images_BHWC = jnp.clip(images_BHWC, 0.0, 1.0)  # rounding may leave the unit interval
        key = step_keys(seed, step)[1]
        keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, batch["index"])
        camera_keys_B, run_keys_B = jnp.moveaxis(jax.vmap(jax.random.split)(keys_B), 1, 0)
        # Of all recipes one is kept: the branches of a switch would be computed too under vmap.
        seen = [augment(images_BHWC, camera_keys_B, recipe) for recipe in self.recipes]
        images_BHWC = jax.lax.select_n(self.camera, *seen)
        images_BHWC = augment(images_BHWC, run_keys_B, self.augmentation)
        return {**batch, "image": normalize(images_BHWC, mean_C, std_C)}


class ViewFeed:
    """Feeds what cameras see of the pictures of another feed; see `data.protocols.ImageFeed`."""

    def __init__(self, pictures: ImageFeed, views: Views, opening: Opening) -> None:
        """Takes over a feed that is open.

        Args:
            pictures: of one camera, for all agents, not augmented.
            views: of all cameras and states.
            opening: the run's needs, with the cameras of the agents.
        """
        self.cameras, self.mean, self.std = opening.cameras, pictures.mean, pictures.std
        self.good = pictures.good  # which the other feed changes
        self._pictures, self._views, self._opening = pictures, views, opening
        camera = np.asarray(opening.cameras, np.int32)
        self._camera = sharding.put(camera, sharding.by_agent(opening.mesh))

    def begin(self, passed_over: np.ndarray) -> None:
        """Sets the number of draws i64[A] that each agent passes over."""
        self._pictures.begin(passed_over)

    def at(self, step: int) -> ViewSource:
        """Returns the source of the call that begins with this step."""
        recipes, own = self._views.recipes, self._opening.augmentation
        return ViewSource(self._pictures.at(step), self._camera, recipes, own)

    def states(self) -> Iterator[np.ndarray]:
        """Yields the fixed views of all states in chunks: u8[A, chunk, H, W, C]."""
        numbers, first = self._views.numbers[0], 0
        for chunk in self._pictures.states():
            rows = np.minimum(np.arange(first, first + chunk.shape[1]), len(numbers) - 1)
            seen = {
                camera: fixed(chunk[0], numbers[rows], camera, self._views.recipes)
                for camera in set(self.cameras)
            }
            yield np.stack([seen[camera] for camera in self.cameras])
            first += chunk.shape[1]

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns what to log about the `seconds` of stepping."""
        return self._pictures.scalars(seconds)

    def close(self) -> None:
        """Ends the workers."""
        self._pictures.close()
