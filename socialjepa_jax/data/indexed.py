"""Reads of image files by number: the batches of a call, the chunks of a pass, broken files.

A broken file is replaced by the image at the same position of the epoch's next batch (and so on, if
that is broken too), so that every loss still sees B whole images and later batches do not move. A
weight of zero instead would have to reach every statistic of the batch (SIGReg's characteristic
function, BatchNorm, covariances, the candidates of InfoNCE) and change its sample size.

Shape key: A agents, K cameras, N states, R training rows, S steps of a call, B batch, E epochs.
"""

import pathlib
import time
from dataclasses import dataclass

import numpy as np
from absl import logging

from socialjepa_jax.data import order
from socialjepa_jax.data.files import Broken, Files, printable
from socialjepa_jax.data.prefetch import Element
from socialjepa_jax.errors import Stopped

_TRIES = 16  # batches that are searched for a whole image


_FOR_EVER = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Calls:
    """The batches of the steps of a call, by the number of the call; an indexed source for grain.

    Attributes:
        files: uint8 [K, N, H, W, C], or [K, N, F, H, W, C] of F frames of a state.
        cameras: the camera of each agent.
        train_rows: i64[R].
        keys: u32[A, E, 16], `order.epoch_keys` of every epoch.
        passed_over: i64[A], step s takes the draws of s + passed_over.
        batch_size: B.
        steps: S.
        agents: the agents whose batches this process reads, as `range`.
        slots: which positions of each batch, as `range`.
    """

    files: Files
    cameras: tuple[int, ...]
    train_rows: np.ndarray
    keys: np.ndarray
    passed_over: np.ndarray
    batch_size: int
    steps: int
    agents: tuple[int, int]
    slots: tuple[int, int]

    def __len__(self) -> int:
        return _FOR_EVER

    def __getitem__(self, call: int) -> Element:
        """The batches of steps call * S ... call * S + S - 1.

        Returns:
            'images' u8[A, S, B, H, W, C] and 'rows' i32[A, S, B] (of the agents and positions read
            here), 'broken' [(file, reason)], 'seconds' of processor time.
        """
        start = time.thread_time()
        agents = range(*self.agents)
        shape = len(agents), self.steps, len(range(*self.slots))
        rows = np.zeros(shape, np.int32)
        images = np.zeros((*shape, *self.files.shape[2:]), np.uint8)
        broken: Broken = []
        for a, agent in enumerate(agents):
            for s in range(self.steps):
                step = call * self.steps + s
                rows[a, s], images[a, s] = self._whole(agent, step, broken)
        return {
            "images": images,
            "rows": rows,
            "broken": broken,
            "seconds": time.thread_time() - start,
        }

    def _whole(self, agent: int, step: int, broken: Broken) -> tuple[np.ndarray, np.ndarray]:
        """Reads a batch; positions of broken images from the next batches that are whole there."""
        slots, images = np.arange(*self.slots), self.files[self.cameras[agent]]
        rows = self._rows(agent, step, slots)
        batch, good, wrong = _read(images[rows])
        broken += wrong
        for later in range(1, _TRIES):
            (left,) = np.nonzero(~good)
            if not len(left):
                break
            rows[left] = self._rows(agent, step, slots[left], later)
            batch[left], good[left], wrong = _read(images[rows[left]])
            broken += wrong
        if not good.all():
            name, reason = broken[-1]
            raise Stopped(f"{_TRIES} pictures in a row cannot be read; {name}: {reason}")
        return rows, batch

    def _rows(self, agent: int, step: int, slots: np.ndarray, later: int = 0) -> np.ndarray:
        """Returns the states at positions of a step's batch, or of the batch `later` batches on."""
        num_rows = len(self.train_rows)
        steps = order.steps_per_epoch(num_rows, self.batch_size)
        epoch, within = divmod(step + int(self.passed_over[agent]), steps)
        # After all batches of the epoch, the next slot: or few batches would offer few images.
        positions = (within + later) * self.batch_size + slots + later // steps
        keys = self.keys[agent, epoch]
        return self.train_rows[order.permute_on_host(keys, positions % num_rows, num_rows)]


def _read(files: Files) -> tuple[np.ndarray, np.ndarray, Broken]:
    """Reads states [B, ...]; bool[B] is true where all frames of a state are whole."""
    images, good, broken = files.read()
    return images, np.all(good.reshape(len(good), -1), axis=1), broken


@dataclass(frozen=True, eq=False)
class Passes:
    """All states in chunks of one size, repeated without end; an indexed source for grain.

    Attributes:
        files: uint8 [K, N, H, W, C].
        cameras: distinct, the ones that are read.
        size: states of a chunk; the last chunk is padded with the last state.
    """

    files: Files
    cameras: tuple[int, ...]
    size: int

    @property
    def chunks(self) -> int:
        """Number of chunks in one pass over all states."""
        return -(-self.files.shape[1] // self.size)

    def rows(self, number: int) -> np.ndarray:
        """Returns i64[size], the states of a chunk."""
        first = number % self.chunks * self.size
        return np.minimum(np.arange(first, first + self.size), self.files.shape[1] - 1)

    def __len__(self) -> int:
        return _FOR_EVER

    def __getitem__(self, number: int) -> Element:
        """Reads a chunk.

        Returns:
            'images' u8[cameras, size, H, W, C], 'good' bool[cameras, size], 'broken', 'seconds'.
        """
        start, rows = time.thread_time(), self.rows(number)
        images, good, broken = self.files[list(self.cameras)][:, rows].read()
        seconds = time.thread_time() - start
        return {"images": images, "good": good, "broken": broken, "seconds": seconds}


class BrokenFiles:
    """Broken files: each is listed once, and too many end the run.

    Attributes:
        names: of the files found so far.
    """

    def __init__(self, path: pathlib.Path | None, total: int, max_share: float) -> None:
        """Begins a new list; the start of a run reads all files, so it is soon complete.

        Args:
            path: of the list; None if another process writes it.
            total: number of files that may be read.
            max_share: largest share of them that may be broken.
        """
        self.names: set[str] = set()
        self._path, self._total, self._max_share = path, total, max_share
        if path is not None:
            path.unlink(missing_ok=True)

    def note(self, broken: Broken) -> None:
        """Adds files.

        Raises:
            Stopped: more files are broken than may be.
        """
        for name, reason in broken:
            if name in self.names:
                continue
            self.names.add(name)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(f"{name}: {reason}\n")
            logging.warning("Broken file %s: %s", printable(name), reason)
        if len(self.names) > self._max_share * self._total:
            raise Stopped(
                f"{len(self.names)} of {self._total} files are broken, more than "
                f"config.data.max_broken={self._max_share}; "
                f"{self._path or 'the first process'} lists them"
            )
