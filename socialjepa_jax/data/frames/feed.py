"""Pairs of frames of one recording: a frame and its successor in time, for training.

Shape key: A agents, N states, P pairs, S steps of a call, B batch, H height, W width, C channels.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax import sharding
from socialjepa_jax.data import order
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.files import Files
from socialjepa_jax.data.protocols import Batch, ImageFeed, Opening
from socialjepa_jax.data.resident import ResidentFeed, ResidentImages, from_rows, image_batch
from socialjepa_jax.data.streaming import StreamedWindow, StreamFeed
from socialjepa_jax.errors import InputError
from socialjepa_jax.keys import Stream, agent_key, step_keys

TRANSITIONS = {
    "motion": "the later one comes delta moments after the first.",
    "strangers": "any two moments, which never change partners.",
    "stills": "one frame twice, each time augmented on its own.",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a recording.

    Attributes:
        later: i64[N], the second state of the pair that begins with a state; itself where no pair
            begins.
        rows: i64[P], the states with which pairs begin, ascending.
    """

    later: np.ndarray
    rows: np.ndarray


def pairs_of(times_N: np.ndarray, rows_R: np.ndarray, delta: int, transition: str) -> Pairs:
    """Pairs states in time; both states of a pair may be trained on.

    Args:
        times_N: i64, moments of the states, ascending.
        rows_R: i64, the states that may be trained on, ascending.
        delta: moments from a state to its successor.
        transition: one of `TRANSITIONS`.

    Raises:
        InputError: there is no pair.
    """
    later = np.arange(len(times_N))
    if transition == "stills":
        return Pairs(later, rows_R)
    if transition == "strangers":
        drawn = np.random.default_rng(len(rows_R)).permutation(rows_R)
        later[drawn] = np.roll(drawn, 1)
        return Pairs(later, rows_R)
    at = np.minimum(np.searchsorted(times_N, times_N[rows_R] + delta), len(times_N) - 1)
    found = (times_N[at] == times_N[rows_R] + delta) & np.isin(at, rows_R)
    if not found.any():
        raise InputError(f"config.data.delta={delta}: no two training moments are so far apart")
    later[rows_R[found]] = at[found]
    return Pairs(later, rows_R[found])


def _batch(
    source: ResidentImages | StreamedWindow,
    pairs_BFHWC: jax.Array,
    index_B: jax.Array,
    key: jax.Array,
    apart: bool,
) -> Batch:
    """Augments both frames u8[B, 2, H, W, C] of each pair, alike or each on its own."""
    keys = (key, jax.random.fold_in(key, 1)) if apart else (key, key)
    first, later = (
        image_batch(
            pairs_BFHWC[:, f], index_B, keys[f], source.augmentation, source.mean, source.std
        )
        for f in (0, 1)
    )
    return {**first, "next": later["image"]}


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["pixels", "rows", "mean", "std", "later"],
    meta_fields=["shape", "augmentation", "shuffle", "apart"],
)
@dataclasses.dataclass(frozen=True)
class PairedImages(ResidentImages):
    """The frames of each agent's camera on its devices, drawn in pairs; a `Source`.

    Attributes:
        later: i32[A, N], see `Pairs`.
        apart: augment the frames of a pair each on its own.
    """

    later: jax.Array = dataclasses.field(kw_only=True)
    apart: bool = dataclasses.field(kw_only=True)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's pairs: 'image' and 'next'; see `data.protocols.Source`."""
        key = agent_key(seed, Stream.ORDER)
        positions = order.batch_rows(key, step, self.rows.shape[0], batch_size)
        index = self.rows[sharding.own_rows(positions)]
        both = jnp.stack([index, self.later[index]], axis=1)
        pairs = from_rows(self.pixels[both], self.shape)
        return _batch(self, pairs, index, step_keys(seed, step)[1], self.apart)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "rows", "first", "mean", "std"],
    meta_fields=["augmentation", "apart"],
)
@dataclasses.dataclass(frozen=True)
class PairedWindow(StreamedWindow):
    """The pairs of the steps of one call; a `Source`.

    Attributes:
        images: u8[A, S, B, 2, H, W, C].
        apart: augment the frames of a pair each on its own.
    """

    apart: bool = False

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's pairs: 'image' and 'next'; see `data.protocols.Source`."""
        at = step - self.first
        return _batch(self, self.images[at], self.rows[at], step_keys(seed, step)[1], self.apart)


class PairFeed(ResidentFeed):
    """Feeds pairs of frames that live on the devices; see `data.protocols.ImageFeed`."""

    def __init__(
        self, images_KNHWC: np.ndarray, opening: Opening, later_N: np.ndarray, apart: bool
    ) -> None:
        """Puts each agent's own frames on its devices.

        Args:
            images_KNHWC: uint8, the frames of all cameras.
            opening: the run's needs; pairs begin with its `train_rows`.
            later_N: see `Pairs`.
            apart: see `PairedImages`.
        """
        super().__init__(images_KNHWC, opening)
        later = np.tile(later_N.astype(np.int32), (len(self.cameras), 1))
        given = {f.name: getattr(self._source, f.name) for f in dataclasses.fields(self._source)}
        by_agent = sharding.by_agent(opening.mesh)
        self._source = PairedImages(**given, later=sharding.put(later, by_agent), apart=apart)


def open_pairs(
    dataset: ViewDataset,
    opening: Opening,
    delta: int,
    transition: str,
    workers: int,
    max_broken: float,
) -> ImageFeed:
    """Opens a feed of pairs.

    Args:
        dataset: its `state_ids` are moments; its images are `Files` to stream, or in memory.
        opening, workers, max_broken: see `StreamFeed`.
        delta, transition: see `pairs_of`.

    Raises:
        InputError: there are fewer pairs than a batch holds.
    """
    pairs = pairs_of(dataset.state_ids, opening.train_rows, delta, transition)
    if len(pairs.rows) < opening.batch_size:
        raise InputError(
            f"config.run.batch_size={opening.batch_size} is more than the {len(pairs.rows)} pairs "
            "of training moments"
        )
    opening = dataclasses.replace(opening, train_rows=pairs.rows)
    apart = transition == "stills"
    if not isinstance(dataset.images, Files):
        return PairFeed(np.asarray(dataset.images), opening, pairs.later, apart)
    window = functools.partial(PairedWindow, apart=apart)
    drawn = paired_files(dataset.images, pairs)
    return StreamFeed(dataset.images, opening, workers, max_broken, drawn, window)


def paired_files(files: Files, pairs: Pairs) -> Files:
    """Returns the pairs that begin with each state, uint8 [K, N, 2, H, W, C]."""
    both = np.stack([files.places, files.places[:, pairs.later]], axis=-1)
    return dataclasses.replace(files, places=both)
