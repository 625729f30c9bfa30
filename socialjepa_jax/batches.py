"""Where the loop's batches come from: data that live on the devices, or a stream.

Both are asked for the data of a step by its number, and both encode all states.

Shape key: A agents, K cameras, N states, H height, W width, C channels, S steps of a call, B batch.
"""

import functools
import hashlib
import math
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np
from absl import logging

from socialjepa_jax import agents, build, sharding
from socialjepa_jax.agents import AgentState, Trainer
from socialjepa_jax.config import Experiment
from socialjepa_jax.data import resident
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.data.files import Broken, Files
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.resident import AgentData
from socialjepa_jax.data.streaming import Calls, Element, Feed, Passes, StreamedData
from socialjepa_jax.errors import Stopped

_LIMITED = 0.1  # share of the time that devices may wait for pictures without a warning


class Batches(Protocol):
    """What the loop needs of its data.

    Attributes:
        good: bool[N], the states whose pictures are whole, as far as is known.
    """

    good: np.ndarray

    def at(self, step: int, state: AgentState) -> AgentData | StreamedData:
        """The data of the call that begins with this step."""

    def encode(self, state: AgentState) -> np.ndarray:
        """The latents f32[A, N, D] of all states."""

    def scalars(self, seconds: float) -> dict[str, float]:
        """What to log, of the `seconds` of stepping since it was last asked for."""

    def close(self) -> None:
        """Ends what runs beside the program."""


def open_batches(
    experiment: Experiment,
    dataset: ViewDataset,
    trainer: Trainer,
    workdir: pathlib.Path,
    cache: pathlib.Path,
    check: Callable[[], None] = lambda: None,
) -> Batches:
    """Opens the data of an experiment: a stream of files, or what lives on the devices.

    Args:
        experiment, dataset, trainer: the run's.
        workdir: where broken files are listed.
        cache: where pixel statistics of files are kept.
        check: called while there is something to wait for.

    Raises:
        InputError: there are fewer training states than a batch holds.
        Stopped: too many files are broken.
    """
    if isinstance(dataset.images, Files):
        # Processes wait for files at different times, and may stop only where all of them ask.
        check = check if jax.process_count() == 1 else lambda: None
        return Stream(experiment, dataset, dataset.images, trainer, workdir, cache, check)
    return Resident(experiment, dataset, trainer, check)


class Resident:
    """Data that live on the devices; see `Batches`."""

    def __init__(
        self,
        experiment: Experiment,
        dataset: ViewDataset,
        trainer: Trainer,
        check: Callable[[], None],
    ) -> None:
        self.good = np.ones(dataset.num_states, bool)
        self._data = build.place(experiment, dataset, trainer)
        self._encode = functools.partial(
            build.encode_states,
            trainer,
            data=self._data,
            num_states=dataset.num_states,
            experiment=experiment,
            check=check,
        )

    def at(self, step: int, state: AgentState) -> AgentData:
        """The same data at every step, which takes what it needs."""
        return self._data

    def encode(self, state: AgentState) -> np.ndarray:
        """The latents f32[A, N, D] of all states."""
        return self._encode(state)

    def scalars(self, seconds: float) -> dict[str, float]:
        """Nothing is waited for."""
        return {}

    def close(self) -> None:
        """Nothing runs."""


class BrokenFiles:
    """Broken files: each is listed once, and too many end the run.

    Attributes:
        names: of those found.
    """

    def __init__(self, path: pathlib.Path | None, total: int, max_share: float) -> None:
        """Begins a new list; all files are read at the start of a run, so it is soon complete.

        Args:
            path: of the list; None where another process writes it.
            total: files that may be read.
            max_share: how much of them may be broken.
        """
        self.names: set[str] = set()
        self._path, self._total, self._max_share = path, total, max_share
        if path is not None:
            path.unlink(missing_ok=True)

    def note(self, broken: Broken) -> None:
        """Adds files.

        Raises:
            Stopped: they are more than may be broken.
        """
        for name, reason in broken:
            if name in self.names:
                continue
            self.names.add(name)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{name}: {reason}\n")
            logging.warning("Broken file %s: %s", name, reason)
        if len(self.names) > self._max_share * self._total:
            raise Stopped(
                f"{len(self.names)} of {self._total} files are broken, more than "
                f"config.data.max_broken={self._max_share}; "
                f"{self._path or 'the first process'} lists them"
            )


class Stream:
    """Data in files that are read when a step needs them; see `Batches`."""

    def __init__(
        self,
        experiment: Experiment,
        dataset: ViewDataset,
        files: Files,
        trainer: Trainer,
        workdir: pathlib.Path,
        cache: pathlib.Path,
        check: Callable[[], None],
    ) -> None:
        data, run = experiment.data, experiment.run
        assert isinstance(data, FolderData)
        self._workers, self._trainer, self._check = data.workers, trainer, check
        self._cameras = experiment.agents.cameras
        self._rows = build.train_rows(experiment, dataset)
        self._files, self.good = files, np.ones(dataset.num_states, bool)
        seen = tuple(sorted(set(self._cameras)))
        total = len(np.unique(files.places[list(seen)]))
        # Every process reads every file, so the first one's list is everybody's.
        listed = None if jax.process_index() else workdir / "broken_files.txt"
        self._tally = BrokenFiles(listed, total, data.max_broken)
        self._passes = Passes(files, seen, min(run.encode_batch, dataset.num_states))
        self._seeds = build.make_hparams(experiment)["seed"]
        self._total_steps, self._steps = run.steps, run.steps_per_call
        self._calls: Feed | None = None
        self._states: Feed | None = None
        self._watch = _Watch()
        try:
            self._mean, self._std = self._statistics(cache)
        except BaseException:
            self.close()
            raise

    def at(self, step: int, state: AgentState) -> StreamedData:
        """The batches of the call that begins with this step; goes there if it is elsewhere.

        Raises:
            Stopped: too many files are broken, or the data can no longer be read.
        """
        call = step // self._steps
        if self._calls is None or self._calls.position != call:
            self._go_to(call, sharding.fetch(state.passed_over))
        assert self._calls is not None
        element = self._watch.take(self._calls, state, self._check)
        self._tally.note(element["broken"])
        return element["data"]

    def _go_to(self, call: int, passed_over: np.ndarray) -> None:
        if self._calls is not None:
            self._calls.close()
        self._watch.begin()  # earlier waits were of steps that are to be done again
        place = sharding.by_batch(self._trainer.mesh)
        shape = len(self._cameras), self._steps, self._trainer.batch_size
        block = sharding.local_block(place, shape)
        steps = self._total_steps + int(passed_over.max())
        epochs = steps // resident.steps_per_epoch(len(self._rows), self._trainer.batch_size) + 1
        calls = Calls(
            self._files,
            self._cameras,
            self._rows,
            np.asarray(agents.order_keys(self._seeds, epochs)),
            passed_over.astype(np.int64),
            self._trainer.batch_size,
            self._steps,
            agents=block[0],
            slots=block[2],
        )
        first = {"next": call * self._steps}

        def put(element: Element) -> Element:
            """To the devices."""
            shard = functools.partial(jax.make_array_from_process_local_data, place)
            begins = (passed_over + first["next"]).astype(np.int32)
            first["next"] += self._steps
            data = StreamedData(
                images=shard(element["images"], (*shape, *self._files.shape[2:])),
                rows=shard(element["rows"], shape),
                first=sharding.put(begins, sharding.by_agent(self._trainer.mesh)),
                mean=self._mean,
                std=self._std,
            )
            return {"data": data, "broken": element["broken"], "seconds": element["seconds"]}

        self._calls = Feed(calls, call, self._workers, put)

    def encode(self, state: AgentState) -> np.ndarray:
        """The latents f32[A, N, D] of all states; those of broken pictures mean nothing."""
        index = [self._passes.cameras.index(camera) for camera in self._cameras]
        place = sharding.by_agent(self._trainer.mesh)
        rows = np.tile(np.arange(self._passes.size, dtype=np.int32), (len(index), 1))
        tiled, parts = sharding.put(rows, place), []
        for _, element in self._one_pass():
            images = sharding.put(element["images"][index], place)
            data = AgentData(images, tiled, self._mean, self._std)
            parts.append(sharding.fetch(self._trainer.encode(state, data, tiled)))
        return np.concatenate(parts, axis=1)[:, : len(self.good)]

    def _one_pass(self) -> Any:
        """Yields (states i64[size], element) of all chunks, and notes what is broken."""
        if self._states is None or self._states.position % self._passes.chunks:
            if self._states is not None:
                self._states.close()
            self._states = Feed(self._passes, 0, self._workers)
        for number in range(self._passes.chunks):
            element, rows = self._states.take(self._check), self._passes.rows(number)
            self._tally.note(element["broken"])
            np.logical_and.at(self.good, rows, element["good"].all(axis=0))
            yield rows, element
            self._check()

    def _statistics(self, cache: pathlib.Path) -> tuple[jax.Array, jax.Array]:
        """Mean and deviation f32[A, C] of the training pictures that are whole; kept by files."""

        def count() -> np.ndarray:
            channels = self._files.shape[-1]
            counts = np.zeros((len(self._passes.cameras), channels, 256), np.int64)
            wanted = np.zeros(len(self.good), bool)
            wanted[self._rows] = True
            for rows, element in self._one_pass():
                fresh = wanted[rows] & np.append(rows[1:] != rows[:-1], True)
                for k, good in enumerate(element["good"]):
                    counts[k] += resident.channel_counts(element["images"][k][fresh & good])
            return counts

        key = hashlib.sha256(self._files.fingerprint().encode() + self._rows.tobytes())
        key.update(str(self._passes.cameras).encode())
        counts = cached_array(cache / f"pixels_{key.hexdigest()[:32]}.npy", count)
        index = [self._passes.cameras.index(camera) for camera in self._cameras]
        mean, std = zip(*(resident.moments(counts[k]) for k in index))
        place = sharding.by_agent(self._trainer.mesh)
        return sharding.put((np.stack(mean), np.stack(std)), place)

    def scalars(self, seconds: float) -> dict[str, float]:
        """The share of stepping that devices waited for pictures; says so where it is much."""
        share, cores = self._watch.report(seconds)
        if share > _LIMITED:
            logging.warning(
                "The host is the limit: the devices waited %.0f %% of the time for pictures. "
                "%d cores that read would be needed (config.data.workers=%d now, this machine has "
                "%d).",
                100 * share, cores, self._workers, os.cpu_count() or 1,
            )  # fmt: skip
        return {"data_wait": round(share, 4), "broken_files": float(len(self._tally.names))}

    def close(self) -> None:
        """Ends the workers."""
        for feed in (self._calls, self._states):
            if feed is not None:
                feed.close()


class _Watch:
    """Times the waits of devices for data."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets what was."""
        self._waited = self._reading = 0.0

    def take(self, feed: Feed, state: AgentState, check: Callable[[], None]) -> Element:
        """The next element. Where it is not there yet, the devices are first left to finish."""
        if not feed.is_ready:
            jax.block_until_ready(state.step)
        idle = time.monotonic()
        element = feed.take(check)
        self._waited += time.monotonic() - idle
        self._reading += element["seconds"]
        return element

    def report(self, passed: float) -> tuple[float, int]:
        """The share waited of the seconds passed with stepping since the last report, and cores
        that would be enough."""
        share, busy = min(1.0, self._waited / passed), max(passed - self._waited, 1e-9)
        cores = max(1, math.ceil(self._reading / busy))
        self.begin()
        return share, cores
