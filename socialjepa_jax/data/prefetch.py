"""Reading ahead: elements of an indexed source, read by other processes through grain.

Only the number of the next element is state, so a run resumes by asking for a later one.
"""

import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import flags

from socialjepa_jax.errors import Stopped

_POLL_S = 0.1
_AHEAD = 2  # elements that wait, for each worker and at the end
Element = dict[str, Any]


def elements_held(workers: int) -> int:
    """Largest number of elements in memory at once: being read, waiting, and handed over."""
    return workers * (_AHEAD + 1) + _AHEAD + 1


class Prefetcher:
    """Reads the elements of an indexed source ahead, from a number on.

    Attributes:
        position: number of the next element.
    """

    def __init__(
        self,
        source: Any,
        start: int,
        workers: int,
        put: Callable[[Element], Element] = lambda element: element,
        ahead: int = _AHEAD,
    ) -> None:
        """Starts reading.

        Args:
            source: with an element for every number.
            start: number of the first element.
            workers: processes that read; 0: a thread of this process.
            put: applied to an element while it waits, such as the transfer to the devices.
            ahead: elements that wait, for each worker and at the end.
        """
        self.position = start
        self._queue: queue.Queue[Any] = queue.Queue(ahead)
        self._closed = threading.Event()
        arguments = source, start, workers, put, ahead
        self._thread = threading.Thread(target=self._work, args=arguments, daemon=True)
        self._thread.start()

    def take(self, check: Callable[[], None] = lambda: None) -> Element:
        """Returns the next element; calls `check` while it waits.

        Raises:
            Stopped: it cannot be read.
        """
        while True:
            try:
                element = self._queue.get(timeout=_POLL_S)
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
        """True if the next element has been read."""
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
                self._queue.put(item, timeout=_POLL_S)
                return True
            except queue.Full:
                continue
        return False


@contextlib.contextmanager
def _elements(source: Any, start: int, workers: int, ahead: int) -> Iterator[Iterator[Element]]:
    import grain  # takes half a second, which runs on resident data save

    dataset = grain.MapDataset.source(source)[start:].to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    )
    if not workers:
        yield iter(dataset)
        return
    if not flags.FLAGS.is_parsed():  # as in a notebook; grain reads its own flags
        flags.FLAGS.mark_as_parsed()
    options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=ahead)
    iterator = iter(dataset.mp_prefetch(options, worker_init_fn=_begin_worker))
    try:
        yield iterator
    finally:
        iterator.close()


def _own(element: Element) -> Element:
    """Copies an element out of the memory that is shared with a worker.

    On CPUs a device array may alias a NumPy array, which would keep the shared segment alive.
    """
    return {name: np.array(x) if isinstance(x, np.ndarray) else x for name, x in element.items()}


def _begin_worker(index: int, count: int) -> None:
    """Makes a worker end with the process that started it, and ignore signals."""
    del index, count
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """Makes this process end when the one that started it is gone, however that ended."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
