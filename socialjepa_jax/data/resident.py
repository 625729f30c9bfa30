"""Images that live on the devices as uint8: batches are gathered and augmented inside the step.

Shape key: A agents, K cameras, N states, R training rows, B batch, H height, W width, C channels.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding
from socialjepa_jax.data import order
from socialjepa_jax.data.augment import Augment, augment
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.augment.shuffle import Shuffle, shuffled
from socialjepa_jax.data.protocols import Batch, Opening
from socialjepa_jax.keys import Stream, agent_key, step_keys

_WIDEST = 1 << 15  # bytes of a row that TPUs gather whole
_LANES = 128


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["pixels", "rows", "mean", "std"],
    meta_fields=["shape", "augmentation", "shuffle"],
)
@dataclass(frozen=True)
class ResidentImages:
    """The images of each agent's camera, whole on its devices; a `Source`.

    Images are rows that accelerators gather as they lie, see `flat_rows`.

    Attributes:
        pixels: u8[A, N, H W C], wide ones u8[A, N, H W C / 128, 128].
        rows: i32[A, R], the states that may be trained on.
        mean, std: f32[A, C], pixel statistics of the training images, on the scale [0, 1].
        shape: (H, W, C).
        augmentation: of the training images.
        shuffle: the order of their pixels.
    """

    pixels: jax.Array
    rows: jax.Array
    mean: jax.Array
    std: jax.Array
    shape: tuple[int, int, int]
    augmentation: Augment = Augment()
    shuffle: Shuffle = Shuffle()

    @property
    def images(self) -> jax.Array:
        """Returns the images u8[..., N, H, W, C]."""
        return from_rows(self.pixels, self.shape)

    def specs(self) -> "ResidentImages":
        """Returns the shardings: every array is split over agents and replicated over 'data'."""
        return jax.tree.map(lambda _: P(sharding.AGENT), self)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's part of an agent's batch; see `data.protocols.Source`."""
        key = agent_key(seed, Stream.ORDER)
        positions = order.batch_rows(key, step, self.rows.shape[0], batch_size)
        index = self.rows[sharding.own_rows(positions)]
        key, order_key = step_keys(seed, step)[1], agent_key(seed, Stream.SHUFFLE)
        images = from_rows(self.pixels[index], self.shape)
        arrange = functools.partial(shuffled, config=self.shuffle, key=order_key, index_B=index)
        return image_batch(images, index, key, self.augmentation, self.mean, self.std, arrange)


def flat_rows(images: np.ndarray) -> np.ndarray:
    """Lays images [A, N, ...] out as the rows [A, N, *row_shape] that sources gather on devices.

    Of other layouts a TPU makes a copy in every call: of images with several axes in its tiles, and
    of rows of more than 32 kB, which it gathers in parts, in every step. Those lie as rows of 128,
    filled up with zeros.
    """
    rows = images.reshape(*images.shape[:2], -1)
    shape = row_shape(rows.shape[-1])
    missing = math.prod(shape) - rows.shape[-1]
    if missing:
        rows = np.pad(rows, ((0, 0), (0, 0), (0, missing)))
    return rows.reshape(*rows.shape[:2], *shape)


def row_shape(size: int) -> tuple[int, ...]:
    """Returns the shape in which an image of `size` bytes lies on devices."""
    return (size,) if size <= _WIDEST else (-(-size // _LANES), _LANES)


def from_rows(rows: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns the images [..., *shape] of rows [..., *row_shape]."""
    size = math.prod(shape)
    lead = rows.shape[: rows.ndim - len(row_shape(size))]
    return rows.reshape(*lead, -1)[..., :size].reshape(*lead, *shape)


def image_batch(
    images: jax.Array,
    index: jax.Array,
    key: jax.Array,
    augmentation: Augment,
    mean: jax.Array,
    std: jax.Array,
    arrange: Callable[[jax.Array], jax.Array] = lambda images: images,
) -> Batch:
    """Augments, arranges and normalises u8[B, H, W, C].

    Each image is augmented by its own key, folded from its index.
    """
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)
    augmented = augment(images.astype(jnp.float32) / 255, keys, augmentation)
    shown = normalize(arrange(augmented), mean, std)
    return {"image": shown, "index": index, "mean": mean, "std": std}


class HeldFeed:
    """Feeds one source at every step, of images that are in memory; see `ImageFeed`.

    A subclass sets `mean`, `std` and `_source`.
    """

    mean: jax.Array
    std: jax.Array
    _source: Any

    def __init__(self, images_KNHWC: np.ndarray, opening: Opening) -> None:
        """Keeps what is asked for while a run goes on.

        Args:
            images_KNHWC: uint8, all states as all cameras see them.
            opening: the run's needs.
        """
        self.cameras, self.good = opening.cameras, np.ones(images_KNHWC.shape[1], bool)
        self._images, self._opening = images_KNHWC, opening

    def begin(self, passed_over: np.ndarray) -> None:
        """Does nothing: the step itself counts the draws that are passed over."""

    def at(self, step: int) -> Any:
        """Returns the same source at every step."""
        return self._source

    def states(self) -> Iterator[np.ndarray]:
        """Yields all states in chunks: u8[A, chunk, H, W, C], padded with the last."""
        per_agent = [self._images[camera] for camera in self.cameras]
        return chunks(per_agent, self._opening.chunk, self._opening.check)

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns nothing: no time is spent waiting."""
        return {}

    def close(self) -> None:
        """Does nothing: no worker runs."""


class ResidentFeed(HeldFeed):
    """Feeds the images of each agent's camera, held on its devices; see `ImageFeed`."""

    def __init__(self, images_KNHWC: np.ndarray, opening: Opening) -> None:
        """Puts each agent's own images on its devices.

        Args:
            images_KNHWC: uint8, the images of all cameras.
            opening: the run's needs.
        """
        super().__init__(images_KNHWC, opening)
        rows, cameras = opening.train_rows, opening.cameras
        put = functools.partial(sharding.put, sharding=sharding.by_agent(opening.mesh))
        statistics = [channel_statistics(images_KNHWC[camera][rows]) for camera in cameras]
        self.mean, self.std = (put(np.stack(part)) for part in zip(*statistics))
        self._source = ResidentImages(
            put(flat_rows(np.stack([images_KNHWC[camera] for camera in cameras]))),
            put(np.tile(rows.astype(np.int32), (len(cameras), 1))),
            self.mean,
            self.std,
            images_KNHWC.shape[2:],
            opening.augmentation,
            opening.shuffle,
        )

    def states(self) -> Iterator[np.ndarray]:
        """Yields all states like `HeldFeed`, each agent's with its own order of pixels."""
        shuffle, size = self._opening.shuffle, self._opening.chunk
        if shuffle.unit == "none":
            yield from super().states()
            return
        seeds, last = sharding.fetch(self._opening.seeds), self._images.shape[1] - 1
        for number, chunk in enumerate(super().states()):
            rows = np.minimum(np.arange(number * size, (number + 1) * size), last)
            yield np.asarray(_shuffled_states(shuffle, chunk, seeds, rows))


@functools.partial(jax.jit, static_argnums=0)
def _shuffled_states(
    shuffle: Shuffle, images_ABHWC: jax.Array, seeds_A: jax.Array, rows_B: jax.Array
) -> jax.Array:
    """Shuffles a chunk of states u8[A, B, H, W, C] as training does."""

    def of_agent(images_BHWC: jax.Array, seed: jax.Array) -> jax.Array:
        return shuffled(images_BHWC, shuffle, agent_key(seed, Stream.SHUFFLE), rows_B)

    return jax.vmap(of_agent)(images_ABHWC, seeds_A)


def chunks(
    images: Sequence[np.ndarray], size: int, check: Callable[[], None]
) -> Iterator[np.ndarray]:
    """Yields images in chunks of one size, u8[A, size, H, W, C], padded with the last image.

    Args:
        images: u8[N, H, W, C] of every agent.
        size: of a chunk.
        check: called after every chunk.
    """
    count = len(images[0])
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        yield np.stack([own[rows] for own in images])
        check()


def channel_statistics(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and population standard deviation of each channel on the scale [0, 1].

    Args:
        images: uint8 [M, H, W, C], of training rows.

    Returns:
        f32[C] twice, from exact counts. A constant channel gets the deviation 1.
    """
    return moments(channel_counts(images))


def channel_counts(images: np.ndarray) -> np.ndarray:
    """Counts each value in each channel of uint8 [M, H, W, C]: i64[C, 256]."""
    counts = np.zeros((images.shape[-1], 256), np.int64)
    for image in images:  # counting needs eight bytes a pixel, so one image at a time
        for channel, count in enumerate(counts):
            count += np.bincount(image[..., channel].ravel(), minlength=256)
    return counts


def moments(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes `channel_statistics` from `channel_counts` i64[C, 256], which may be summed."""
    values, total = np.arange(256.0) / 255, counts.sum(axis=1)
    mean = counts @ values / total
    std = np.sqrt((counts * (values[None] - mean[:, None]) ** 2).sum(axis=1) / total)
    return mean.astype(np.float32), np.where(std > 0, std, 1).astype(np.float32)
