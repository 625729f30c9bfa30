"""Images that are read when a step needs them, by other processes.

Everything is indexed: the batch of a call is a pure function of (data, seeds, number of the call).
There is no iterator state to save, a run resumes by asking for a later call, and batches are the
same for any number of processes and workers. Workers read, decode and resize; uint8 goes to the
device, where it is augmented.

Shape key: A agents, K cameras, N states, R training rows, S steps of a call, B batch, E epochs.
"""

import dataclasses
import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np
from absl import logging
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding
from socialjepa_jax.data import order, resident
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.data.files import Files
from socialjepa_jax.data.indexed import BrokenFiles, Calls, Passes
from socialjepa_jax.data.prefetch import Element, Prefetcher, elements_held
from socialjepa_jax.data.protocols import Batch, ImageFeed, Opening
from socialjepa_jax.errors import InputError
from socialjepa_jax.keys import step_keys

_LIMITED = 0.1  # share of the time that devices may wait for images without a warning


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "rows", "first", "mean", "std"],
    meta_fields=["augmentation"],
)
@dataclass(frozen=True)
class StreamedWindow:
    """The batches of the steps of one call; a `Source`.

    Attributes:
        images: u8[A, S, B, H, W, C], split over 'data' along B.
        rows: i32[A, S, B], the states they show.
        first: i32[A], number of the first draw (step + passed_over).
        mean, std: f32[A, C], pixel statistics of the training images, on the scale [0, 1].
        augmentation: of the training images.
    """

    images: jax.Array
    rows: jax.Array
    first: jax.Array
    mean: jax.Array
    std: jax.Array
    augmentation: Augment = Augment()

    @property
    def shape(self) -> tuple[int, ...]:
        """(H, W, C)."""
        return self.images.shape[-3:]

    def specs(self) -> Self:
        """Returns the shardings: batches are split over 'data' too."""
        steps, agent = sharding.STEPS, P(sharding.AGENT)
        split: Any = {"images": steps, "rows": steps, "first": agent, "mean": agent, "std": agent}
        return dataclasses.replace(self, **split)

    def batch(self, step: jax.Array, seed: jax.Array, batch_size: int) -> Batch:
        """Returns this shard's part of an agent's batch; see `data.protocols.Source`."""
        at = step - self.first
        index, key = self.rows[at], step_keys(seed, step)[1]
        return resident.image_batch(
            self.images[at], index, key, self.augmentation, self.mean, self.std
        )


class WaitTimer:
    """Times how long the devices wait for data."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all waits so far."""
        self._waited = self._reading = 0.0

    def take(
        self, ahead: Prefetcher, settle: Callable[[], None], check: Callable[[], None]
    ) -> Element:
        """Returns the next element; if it is not there yet, the devices finish their work first."""
        if not ahead.is_ready:
            settle()
        idle = time.monotonic()
        element = ahead.take(check)
        self._waited += time.monotonic() - idle
        self._reading += element["seconds"]
        return element

    def report(self, passed: float) -> tuple[float, int]:
        """Returns the share of `passed` seconds of stepping that was waited since the last report,
        and the number of reading cores that would suffice."""
        share, busy = min(1.0, self._waited / passed), max(passed - self._waited, 1e-9)
        cores = max(1, math.ceil(self._reading / busy))
        self.reset()
        return share, cores


class StreamFeed:
    """Feeds windows of images that other processes read; see `data.protocols.ImageFeed`."""

    def __init__(
        self,
        files: Files,
        opening: Opening,
        workers: int,
        max_broken: float,
        drawn: Files | None = None,
        window: Callable[..., StreamedWindow] = StreamedWindow,
    ) -> None:
        """Reads the pixel statistics, or finds them in the cache.

        Args:
            files: uint8 [K, N, H, W, C].
            opening: the run's needs.
            workers: processes that read; as many again for `states`.
            max_broken: largest share of the files that may be broken.
            drawn: uint8 [K, N, ...], what training draws of a state, if not its image.
            window: makes the source of a call from the fields of `StreamedWindow`.

        Raises:
            InputError: what is read ahead would not fit in memory.
            Stopped: too many files are broken.
        """
        self.cameras, self.good = opening.cameras, np.ones(files.shape[1], bool)
        self._files, self._opening, self._workers = files, opening, workers
        self._drawn, self._window = files if drawn is None else drawn, window
        self._check_memory()
        # Processes wait for files at different times, and may stop only where all of them ask.
        self._check = opening.check if jax.process_count() == 1 else lambda: None
        distinct = tuple(sorted(set(opening.cameras)))
        self._index = [distinct.index(camera) for camera in opening.cameras]
        # Every process reads every file, so the first one's list is complete.
        broken_list = None if jax.process_index() else opening.workdir / "broken_files.txt"
        total = len(np.unique(files.places[list(distinct)]))
        self._broken = BrokenFiles(broken_list, total, max_broken)
        self._passes = Passes(files, distinct, min(opening.chunk, files.shape[1]))
        self._passed_over = np.zeros(len(opening.cameras), np.int64)
        self._calls: Prefetcher | None = None
        self._all_states: Prefetcher | None = None
        self._timer = WaitTimer()
        try:
            self.mean, self.std = self._statistics()
        except BaseException:
            self.close()
            raise

    def _check_memory(self) -> None:
        run = self._opening
        agents, steps, slots = (end - first for first, end in self._held_block())
        size = agents * steps * slots * math.prod(self._drawn.shape[2:])
        count, memory = elements_held(self._workers), _memory()
        if count * size > memory:
            raise InputError(
                f"config.run.steps_per_call={run.steps_per_call} with config.data.workers="
                f"{self._workers}: {count} calls of {size / 1e9:.3g} GB of images would be read "
                f"ahead, this machine has {memory / 1e9:.3g} GB"
            )

    def _held_block(self) -> tuple[tuple[int, int], ...]:
        """The agents, steps and positions of a call that this process reads: (first, end) each."""
        run = self._opening
        shape = len(self.cameras), run.steps_per_call, run.batch_size
        return sharding.local_block(sharding.by_batch(run.mesh), shape)

    def begin(self, passed_over: np.ndarray) -> None:
        """Drops what was read ahead; the next `at` reads with i64[A] draws passed over."""
        self._passed_over = np.asarray(passed_over, np.int64)
        if self._calls is not None:
            self._calls.close()
        self._calls = None
        self._timer.reset()  # earlier waits belong to steps that are done again

    def at(self, step: int) -> StreamedWindow:
        """Returns the batches of the call that begins with this step.

        Raises:
            Stopped: too many files are broken, or the data can no longer be read.
        """
        call = step // self._opening.steps_per_call
        if self._calls is not None and self._calls.position != call:
            self.begin(self._passed_over)
        if self._calls is None:
            self._calls = self._read_ahead(call)
        element = self._timer.take(self._calls, self._opening.settle, self._check)
        self._broken.note(element["broken"])
        return element["window"]

    def _read_ahead(self, call: int) -> Prefetcher:
        run, by_batch = self._opening, sharding.by_batch(self._opening.mesh)
        shape = len(self.cameras), run.steps_per_call, run.batch_size
        held = self._held_block()
        steps = run.total_steps + int(self._passed_over.max())
        epochs = steps // order.steps_per_epoch(len(run.train_rows), run.batch_size) + 1
        calls = Calls(
            self._drawn,
            self.cameras,
            run.train_rows,
            np.asarray(order.epoch_keys(run.seeds, epochs)),
            self._passed_over,
            run.batch_size,
            run.steps_per_call,
            agents=held[0],
            slots=held[2],
        )
        shard = functools.partial(jax.make_array_from_process_local_data, by_batch)
        first = {"step": call * run.steps_per_call}

        def put(element: Element) -> Element:
            """Makes the window on the devices."""
            begins = (self._passed_over + first["step"]).astype(np.int32)
            first["step"] += run.steps_per_call
            window = self._window(
                images=shard(element["images"], (*shape, *self._drawn.shape[2:])),
                rows=shard(element["rows"], shape),
                first=sharding.put(begins, sharding.by_agent(self._opening.mesh)),
                mean=self.mean,
                std=self.std,
                augmentation=run.augmentation,
            )
            return {
                "window": window,
                "broken": element["broken"],
                "seconds": element["seconds"],
            }

        return Prefetcher(calls, call, self._workers, put)

    def states(self) -> Iterator[np.ndarray]:
        """Yields all states in chunks: u8[A, chunk, H, W, C]; broken images hold anything."""
        for _, element in self._one_pass():
            yield element["images"][self._index]

    def _one_pass(self) -> Iterator[tuple[np.ndarray, Element]]:
        """Yields (states i64[chunk], element) of all chunks, and notes what is broken."""
        if self._all_states is None or self._all_states.position % self._passes.chunks:
            if self._all_states is not None:
                self._all_states.close()
            self._all_states = Prefetcher(self._passes, 0, self._workers)
        for number in range(self._passes.chunks):
            element = self._all_states.take(self._check)
            rows = self._passes.rows(number)
            self._broken.note(element["broken"])
            np.logical_and.at(self.good, rows, element["good"].all(axis=0))
            yield rows, element
            self._check()

    def _statistics(self) -> tuple[jax.Array, jax.Array]:
        """Mean and std f32[A, C] of the whole training images, cached by digest."""
        train_rows = self._opening.train_rows

        def count() -> np.ndarray:
            channels = self._files.shape[-1]
            counts = np.zeros((len(self._passes.cameras), channels, 256), np.int64)
            wanted = np.zeros(len(self.good), bool)
            wanted[train_rows] = True
            for rows, element in self._one_pass():
                fresh = wanted[rows] & np.append(rows[1:] != rows[:-1], True)
                for k, good in enumerate(element["good"]):
                    counts[k] += resident.channel_counts(element["images"][k][fresh & good])
            return counts

        key = hashlib.sha256(self._files.fingerprint().encode() + train_rows.tobytes())
        key.update(str(self._passes.cameras).encode())
        counts = cached_array(self._opening.cache / f"pixels_{key.hexdigest()[:32]}.npy", count)
        mean, std = zip(*(resident.moments(counts[k]) for k in self._index))
        by_agent = sharding.by_agent(self._opening.mesh)
        return sharding.put((np.stack(mean), np.stack(std)), by_agent)

    def scalars(self, seconds: float) -> dict[str, float]:
        """Returns the share of stepping that devices waited for images; warns if it is large."""
        share, cores = self._timer.report(seconds)
        if share > _LIMITED:
            logging.warning(
                "The host is the limit: the devices waited %.0f %% of the time for pictures. "
                "%d cores that read would be needed (config.data.workers=%d now, this machine has "
                "%d).",
                100 * share, cores, self._workers, os.cpu_count() or 1,
            )  # fmt: skip
        return {"data_wait": round(share, 4), "broken_files": float(len(self._broken.names))}

    def close(self) -> None:
        """Ends the workers."""
        for ahead in (self._calls, self._all_states):
            if ahead is not None:
                ahead.close()


def _memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def open_images(
    dataset: ViewDataset, opening: Opening, workers: int, max_broken: float
) -> ImageFeed:
    """Opens a stream of the files of a data set, or puts its images on the devices.

    Args:
        dataset: its images are `Files` to stream, or in memory.
        opening, workers, max_broken: see `StreamFeed`.
    """
    if isinstance(dataset.images, Files):
        return StreamFeed(dataset.images, opening, workers, max_broken)
    return resident.ResidentFeed(np.asarray(dataset.images), opening)
