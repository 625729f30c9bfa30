"""Runs that share nothing, side by side: on CPUs each in a process with a core of its own.

The program of a small encoder keeps one core busy, and so do its compilation, its tracing and most
of what measures it. One run a core leaves none idle, and every run computes as on one device.
"""

import multiprocessing
import os
import pathlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import SimpleQueue

import jax

from socialjepa_jax.data.prefetch import end_with_parent
from socialjepa_jax.performance import compilation


def cores() -> list[int]:
    """Returns the cores that may have a run each; one at most where devices are to be shared.

    These are other devices than CPUs, and the virtual ones of JAX_NUM_CPU_DEVICES.
    """
    if not hasattr(os, "sched_getaffinity"):  # no core can be chosen
        return [0]
    found = sorted(os.sched_getaffinity(0))
    return found if jax.default_backend() == "cpu" and jax.device_count() == 1 else found[:1]


def run(
    make: Callable[[str], object], names: Sequence[str], at: Sequence[int], cache: pathlib.Path
) -> None:
    """Calls a function once for each name, in their order, as many at once as there are cores.

    Args:
        make: leaves its result in a file; can be pickled.
        names: of the runs.
        at: numbers of the cores.
        cache: folder of compiled programs, shared by the processes.

    Raises:
        Exception: the first that a call raised; calls that have begun are waited for.
    """
    spawn = multiprocessing.get_context("spawn")  # a fork of JAX may hang
    free = spawn.SimpleQueue()
    for core in at:
        free.put(core)
    with ProcessPoolExecutor(len(at), spawn, _begin, (free, cache)) as pool:
        for _ in pool.map(make, names):
            pass


def _begin(free: "SimpleQueue[int]", cache: pathlib.Path) -> None:
    """Takes a core, before JAX counts them."""
    os.sched_setaffinity(0, {free.get()})
    end_with_parent()
    compilation.use_cache(cache, "compiled programs")
