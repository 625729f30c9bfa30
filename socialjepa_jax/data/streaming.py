"""Pictures that are read when a step needs them, by other processes, through grain.

Everything is indexed: the batch of a call is a pure function of (data, seeds, number of the call),
so there is no state of an iterator to save, a run resumes by asking for a later call, and batches
are the same for any number of processes and workers. Workers read, decode and resize; uint8 goes
to the device, and augmentation happens there.

A broken file has weight zero: its place in the batch is taken by the picture that has the same
place in the epoch's next batch (and so on, if that is broken too). Nothing else moves, later
batches least of all, and every loss still sees B whole pictures. (A weight in the losses would have
to reach every statistic of the batch, SIGReg's characteristic function, BatchNorm, covariances,
candidates of InfoNCE, and change their sample size.)

Shape key: A agents, K cameras, N states, R training rows, S steps of a call, B batch, E epochs.
"""

import contextlib
import functools
import gc
import multiprocessing
import multiprocessing.connection
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from absl import flags
from jax.sharding import PartitionSpec as P

from socialjepa_jax import sharding
from socialjepa_jax.data.files import Broken, Files
from socialjepa_jax.data.resident import permute_on_host, steps_per_epoch
from socialjepa_jax.errors import Stopped

_TRIES = 16  # whole pictures are looked for in so many batches
_FOR_EVER = 2**31 - 1
_POLL = 0.1  # seconds
Element = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Calls:
    """What the steps of a call need, by the number of the call; a random access source of grain.

    Attributes:
        files: uint8 [K, N, H, W, C].
        cameras: the camera of each agent.
        train_rows: i64[R].
        keys: u32[A, E, 16], `resident.round_keys` of every epoch.
        passed_over: i64[A], step s takes the draws of s + passed_over.
        batch_size: B.
        steps: S.
        agents: which agents' batches are read here, as `range`.
        slots: which places of each batch.
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
            'images' u8[A, S, B, H, W, C] and 'rows' i32[A, S, B] (of agents and places that are
            read here), 'broken' [(file, what is wrong)], 'seconds' of processor time.
        """
        start = time.thread_time()
        agents, slots = range(*self.agents), np.arange(*self.slots)
        shape = len(agents), self.steps, len(slots)
        rows = np.zeros(shape, np.int32)
        images = np.zeros((*shape, *self.files.shape[2:]), np.uint8)
        broken: Broken = []
        for a, agent in enumerate(agents):
            for s in range(self.steps):
                for b, slot in enumerate(slots):
                    place = agent, call * self.steps + s, int(slot)
                    rows[a, s, b], images[a, s, b] = self._whole(*place, broken)
        return {
            "images": images,
            "rows": rows,
            "broken": broken,
            "seconds": time.thread_time() - start,
        }

    def _whole(self, agent: int, step: int, slot: int, broken: Broken) -> tuple[int, np.ndarray]:
        """Row and picture of a place of a batch, or of the first one after it that is whole."""
        for later in range(_TRIES):
            row = self.row(agent, step, slot, later)
            image, good, wrong = self.files[self.cameras[agent], row : row + 1].read()
            broken += wrong
            if good.all():
                return row, image[0]
        name, reason = broken[-1]
        raise Stopped(f"{_TRIES} pictures in a row cannot be read; {name}: {reason}")

    def row(self, agent: int, step: int, slot: int, later: int = 0) -> int:
        """The state that an agent sees in a place of a step's batch, or `later` batches on."""
        num_rows = len(self.train_rows)
        steps = steps_per_epoch(num_rows, self.batch_size)
        epoch, within = divmod(step + int(self.passed_over[agent]), steps)
        position = (within * self.batch_size + slot + later * self.batch_size) % num_rows
        keys = self.keys[agent, epoch]
        return int(self.train_rows[permute_on_host(keys, np.array([position]), num_rows)[0]])


@dataclass(frozen=True, eq=False)
class Passes:
    """All states in chunks, again and again: number c is the chunk c modulo their number.

    Attributes:
        files: uint8 [K, N, H, W, C].
        cameras: distinct, those that are read.
        size: states of a chunk; the last one is filled up with the last state.
    """

    files: Files
    cameras: tuple[int, ...]
    size: int

    @property
    def chunks(self) -> int:
        """Chunks of one pass."""
        return -(-self.files.shape[1] // self.size)

    def rows(self, number: int) -> np.ndarray:
        """i64[size], the states of a chunk."""
        first = number % self.chunks * self.size
        return np.minimum(np.arange(first, first + self.size), self.files.shape[1] - 1)

    def __len__(self) -> int:
        return _FOR_EVER

    def __getitem__(self, number: int) -> Element:
        """'images' u8[cameras, size, H, W, C], 'good' bool[cameras, size], 'broken', 'seconds'."""
        start, rows = time.thread_time(), self.rows(number)
        images, good, broken = self.files[list(self.cameras)][:, rows].read()
        seconds = time.thread_time() - start
        return {"images": images, "good": good, "broken": broken, "seconds": seconds}


class Feed:
    """The elements of a source from a number on, read ahead.

    Attributes:
        position: number of the next element.
    """

    def __init__(
        self,
        source: Any,
        start: int,
        workers: int,
        put: Callable[[Element], Element] = lambda element: element,
        ahead: int = 2,
    ) -> None:
        """Starts reading.

        Args:
            source: with an element for every number.
            start: number of the first element.
            workers: processes that read; 0: a thread of this one.
            put: what becomes of an element while it waits, on the way to the device.
            ahead: elements that wait, for each worker and at the end.
        """
        self.position = start
        self._queue: queue.Queue[Any] = queue.Queue(ahead)
        self._closed = threading.Event()
        arguments = source, start, workers, put, ahead
        self._thread = threading.Thread(target=self._work, args=arguments, daemon=True)
        self._thread.start()

    def take(self, check: Callable[[], None] = lambda: None) -> Element:
        """The next element; `check` is called while it is awaited.

        Raises:
            Stopped: it cannot be read.
        """
        while True:
            try:
                element = self._queue.get(timeout=_POLL)
                break
            except queue.Empty:
                check()
        if isinstance(element, BaseException):
            self.close()
            if isinstance(element, Stopped):
                raise element
            raise Stopped(f"the data can no longer be read ({element})") from element
        self.position += 1
        return element

    @property
    def is_ready(self) -> bool:
        """Whether the next element waits."""
        return not self._queue.empty()

    def close(self) -> None:
        """Ends the workers; may be called again."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
            gc.collect()  # grain's iterators are cycles that hold shared memory

    def _work(self, source: Any, start: int, workers: int, put: Any, ahead: int) -> None:
        try:
            with _elements(source, start, workers, ahead) as elements:
                for element in elements:
                    if not self._hand_over(put(_own(element))):
                        return
        except BaseException as error:
            self._hand_over(error)

    def _hand_over(self, item: Any) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=_POLL)
                return True
            except queue.Full:
                continue
        return False


@contextlib.contextmanager
def _elements(source: Any, start: int, workers: int, ahead: int) -> Iterator[Iterator[Element]]:
    import grain  # costs half a second, which runs without a stream need not wait for

    dataset = grain.MapDataset.source(source)[start:].to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    )
    if not workers:
        yield iter(dataset)
        return
    if not flags.FLAGS.is_parsed():  # in a notebook; grain asks for its own
        flags.FLAGS.mark_as_parsed()
    options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=ahead)
    iterator = iter(dataset.mp_prefetch(options, worker_init_fn=_begin_worker))
    try:
        yield iterator
    finally:
        iterator.close()


def _own(element: Element) -> Element:
    """A copy whose arrays do not lie in memory that is shared with a worker.

    On CPUs a device array may be the very memory of a NumPy array, and would keep a segment.
    """
    return {name: np.array(x) if isinstance(x, np.ndarray) else x for name, x in element.items()}


def _begin_worker(index: int, count: int) -> None:
    """A worker ends with the process that started it and leaves signals to that one."""
    del index, count
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "rows", "first", "mean", "std"],
    meta_fields=[],
)
@dataclass(frozen=True)
class StreamedData:
    """What the agents see in the steps of one call, where the data do not live on the devices.

    Attributes:
        images: u8[A, S, B, H, W, C], split over 'data' along B.
        rows: i32[A, S, B], the states they show.
        first: i32[A], the draw (step + passed_over) that comes first.
        mean, std: f32[A, C], pixel statistics of the training pictures.
    """

    images: jax.Array
    rows: jax.Array
    first: jax.Array
    mean: jax.Array
    std: jax.Array

    @staticmethod
    def specs() -> "StreamedData":
        """How it is split over a mesh."""
        steps, agent = sharding.STEPS, P(sharding.AGENT)
        return StreamedData(steps, steps, agent, agent, agent)  # type: ignore[arg-type]
