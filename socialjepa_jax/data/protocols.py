"""Protocols between data, trainer and loop.

`Data` is the configuration of a data set, `Feed` its host side (files, workers, waiting), `Source`
its device side: a pytree from which the compiled step makes its batches.

Shape key: A agents, K cameras, N states, B batch, H height, W width, C channels, X features, T
steps of a walk, M actions, L state dimensions.
"""

import functools
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.sharding import Mesh

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.shuffle import Shuffle
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.errors import ImageSize

Batch = dict[str, Any]  # arrays; of coupled models two batches, 'a' and 'b'


class Data(Protocol):
    """A configured data set.

    A data set whose images do not fit on the devices, or that makes its own batches, also has
    `open_feed(dataset, opening) -> ImageFeed`; without it all images live on the devices.

    Attributes:
        kind: name in a configuration.
        image_size: side of square images or (height, width), pixels.
        channels: 1 or 3.
        num_cameras: K.
    """

    kind: str
    image_size: ImageSize
    channels: int

    @property
    def num_cameras(self) -> int:
        """K."""
        ...

    def load(self, cache: pathlib.Path) -> ViewDataset:
        """Reads or renders the data set; `cache` is a folder for what is costly to make again."""
        ...


@dataclass(frozen=True, eq=False)
class Opening:
    """Everything a feed is told when it is opened, beside the data.

    Attributes:
        cameras: the camera of each agent.
        train_rows: i64[R], the states that may be trained on.
        augmentation: of the training images.
        mesh: the devices, over ('agent', 'data').
        seeds: u32[A].
        batch_size: B, of an agent's global batch.
        steps_per_call: S.
        total_steps: of the run.
        chunk: states of one element of `ImageFeed.states`.
        workdir: of the run; only the first process writes it.
        cache: folder for what is costly to compute again.
        check: called while there is something to wait for.
        settle: blocks until the devices have done the steps dispatched so far.
        view: 0; 1 for second cameras of the same states, whose images have noise of their own.
        shuffle: the order of the pixels of every image.
    """

    cameras: tuple[int, ...]
    train_rows: np.ndarray
    augmentation: Augment
    mesh: Mesh
    seeds: jax.Array
    batch_size: int
    steps_per_call: int
    total_steps: int
    chunk: int
    workdir: pathlib.Path
    cache: pathlib.Path
    check: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None
    view: int = 0
    shuffle: Shuffle = Shuffle()


class Source(Protocol):
    """The source of a compiled step's batches: a pytree with a leading agent axis."""

    def specs(self) -> Any:
        """Returns the same pytree with a `PartitionSpec` in the place of every array."""
        ...

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's part of one agent's global batch; pure, inside `shard_map`.

        The agent axis of the leaves is gone here.

        Args:
            step: i32[], number of the draw.
            seed: u32[], of the agent.
            batch_size: of the global batch; B below is the shard's part of it.

        Returns:
            'image' f32[B, H, W, C] with the 'mean' and 'std' f32[C] that normalised it, or
            'views' f32[B, 2, X]; and 'index' i32[B], ids of the samples. Pairs in time add 'next'
            f32[B, H, W, C]; coupled models have 'a' and 'b', a batch of each camera.
        """
        ...


class Feed(Protocol):
    """The host side of a data source: files, worker processes and waiting."""

    @property
    def good(self) -> np.ndarray:
        """bool[N], the states whose images are whole, as far as is known."""
        ...

    def at(self, step: int) -> Source:
        """Returns the source of the call that begins with this step."""
        ...

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns what to log about the `seconds` of stepping since the last call of this."""
        ...

    def close(self) -> None:
        """Ends the workers; may be called again."""
        ...


class ImageFeed(Feed, Protocol):
    """A feed of images, which evaluations read too.

    Attributes:
        cameras: the camera of each agent.
        mean, std: f32[A, C], pixel statistics of the agent's training images, on the devices.
    """

    cameras: tuple[int, ...]
    mean: jax.Array
    std: jax.Array

    def begin(self, passed_over: np.ndarray) -> None:
        """Sets the number of draws i64[A] that each agent passes over, before the first `at`."""
        ...

    def states(self) -> Iterator[np.ndarray]:
        """Yields all states in chunks of one size: u8[A, size, H, W, C], the last one padded."""
        ...


@runtime_checkable
class WalkFeed(ImageFeed, Protocol):
    """A feed of a world in motion, in which every agent also took a walk with known actions.

    Attributes:
        actions: f32[A, T, M], of the walks; None if there are none.
        rho: f64[L], correlation of successive states of a walk.
    """

    actions: np.ndarray | None
    rho: np.ndarray

    def walked(self) -> Iterator[np.ndarray]:
        """Yields the T + 1 images of each walk in chunks, like `states`."""
        ...


@dataclass(frozen=True)
class ConstantFeed:
    """Feeds a source that needs no host, such as a world or one batch for benchmarks."""

    source: Source
    good: np.ndarray = field(default_factory=lambda: np.ones(0, bool))

    def at(self, step: int) -> Source:
        """Returns the source."""
        return self.source

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Does nothing."""


@functools.partial(jax.tree_util.register_dataclass, data_fields=["a", "b", "own"], meta_fields=[])
@dataclass(frozen=True)
class PairedSource:
    """A `Source` of two sources that draw the same states.

    Attributes:
        a, b: sources of the agent's own camera and of its partner's.
        own: source of what the agent learns from by itself; None: `a`.
    """

    a: Source
    b: Source
    own: Source | None = None

    def specs(self) -> "PairedSource":
        """Returns the shardings of both."""
        own = None if self.own is None else self.own.specs()
        return PairedSource(self.a.specs(), self.b.specs(), own)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns {'a': batch, 'b': batch} of the same states, with 'own' where it is another.

        See `data.protocols.Source`.
        """
        sources = {"a": self.a, "b": self.b} | ({} if self.own is None else {"own": self.own})
        return {name: source.batch(step, seed, batch_size) for name, source in sources.items()}


class PairedFeed:
    """Feeds both cameras; the states that are measured on are those of the agents' own."""

    def __init__(self, a: ImageFeed, b: ImageFeed) -> None:
        """Takes the feeds of both cameras, of equal states, rows and seeds."""
        self.a, self.b = a, b
        self.cameras, self.mean, self.std = a.cameras, a.mean, a.std

    @property
    def good(self) -> np.ndarray:
        """bool[N], the states whose images are whole in both cameras, as far as is known."""
        return self.a.good & self.b.good

    def begin(self, passed_over: np.ndarray) -> None:
        """Begins both."""
        self.a.begin(passed_over)
        self.b.begin(passed_over)

    def at(self, step: int) -> PairedSource:
        """Returns the source of the call that begins with this step."""
        return PairedSource(self.a.at(step), self.b.at(step))

    def states(self) -> Iterator[np.ndarray]:
        """Yields all states as the agents' own cameras see them."""
        return self.a.states()

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns what the first feed has to log; both wait for the same workers."""
        return self.a.scalars(seconds)

    def close(self) -> None:
        """Closes both."""
        self.a.close()
        self.b.close()
