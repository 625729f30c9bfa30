"""Reliability of runs: kills, signals, damaged and hostile files, bad batches, several processes.

Prints one table, a line for each check, and ends with `N passed, M failed`.

Command: python -m experiments.bench_reliability --quick
Cost: seven minutes on two CPU cores; `--full` kills and damages five times as often.
Expected: 21 passed, 0 failed. Of 20 kills, 19 leave a checkpoint to go on from, 0 losses differ;
0 of 150 flipped bits are restored silently; 2 processes x 2 devices end within 4.5e-8 of 1 x 4.
"""

import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

import jax
from absl import flags, logging

from experiments.reliability import (
    checkpoints,
    hostile,
    hosts,
    interruptions,
    refusals,
    states,
    stream_hosts,
    streams,
    topologies,
)
from experiments.reliability.fixture import Figures, Fixture
from socialjepa_jax.errors import InputError, check_one_of


def table(factor: int) -> dict[str, tuple[str, Callable[[Fixture], Figures]]]:
    """Returns the checks: name -> (target, check); `factor` multiplies kills and flipped bits."""
    return {
        "kills": (
            "bit-identical, half from a checkpoint",
            partial(interruptions.kills, count=20 * factor),
        ),
        "mutations": ("every one noticed", states.mutations),
        "signals": ("15 of 15 saved", interruptions.signals),
        "bit_flips": ("0 of 150 silent", partial(checkpoints.bit_flips, count=150 * factor)),
        "damaged_latest": ("10 of 10 use the one before", checkpoints.damaged_latest),
        "refusals": ("8 of 8 before compiling", refusals.refusals),
        "locked": ("refused, taken over after a kill", interruptions.locked),
        "full_disk": ("exit 3, others intact", checkpoints.full_disk),
        "skipped_batch": ("equal to the run without it", states.skipped_batch),
        "stops_after_many": ("exit 3, nothing saved", states.stops_after_many),
        "hostile_files": (">= 60, 0 executed, 0 accepted", hostile.hostile_files),
        "processes": (
            "equal to 1e-5, all end within 15 s, stop as one, the late named",
            hosts.processes,
        ),
        "topologies": ("exact: 1 hash, else within 1e-5", topologies.topologies),
        "blocking": ("< 50 ms at 64 MiB", checkpoints.blocking),
        "same_batches": ("equal for any processes and workers", streams.same_batches),
        "same_losses": ("stream as resident", streams.same_losses),
        "broken_records": ("counted, listed, exit 3 above the limit", streams.broken_records),
        "stream_resumes": ("equal at the end", streams.stream_resumes),
        "stream_processes": (
            "batches equal, end to 1e-5, stop as one, nothing left",
            partial(stream_hosts.stream_groups, every=factor > 1),
        ),
        "stream_leftovers": ("0 processes, 0 segments", streams.stream_leftovers),
        "leftovers": ("0 and 0", interruptions.leftovers),
    }


def run(names: list[str], factor: int, folder: pathlib.Path) -> int:
    """Runs the named checks (all if there are none), prints the table, returns how many failed."""
    os.environ["SOCIALJEPA_RELIABILITY"] = str(folder)  # marks the processes for `leftovers`
    fixture, failed, checks = Fixture(folder), 0, table(factor)
    for name in names:
        check_one_of(tuple(checks), only=name)
    for name in names or checks:
        target, check = checks[name]
        start = time.monotonic()
        try:
            figures: Figures | str = check(fixture)
            passed = figures.passed
        except Exception as error:  # a check that raises has failed
            figures, passed = f"{type(error).__name__}: {error}", False
        failed += not passed
        seconds = time.monotonic() - start
        word = "passed" if passed else "FAILED"
        print(f"{word}  {name:16s}  {figures}  (target: {target}; {seconds:.0f} s)", flush=True)
    print(f"{len(names or checks) - failed} passed, {failed} failed")
    return failed


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_bool("quick", False, "The short form (the default).")
    flags.DEFINE_bool("full", False, "Five times as many kills and flipped bits.")
    flags.DEFINE_list("only", [], "Names of checks; all without it.")


def main() -> None:
    """Runs the chosen checks in a temporary folder."""
    given = flags.FLAGS
    if given.quick and given.full:
        raise InputError("--quick or --full, not both")
    logging.set_verbosity(logging.FATAL)  # expected refusals are figures of the table
    jax.config.update("jax_platforms", "cpu")
    with tempfile.TemporaryDirectory(prefix="reliability_") as folder:
        failed = run(given.only, 5 if given.full else 1, pathlib.Path(folder))
    sys.exit(bool(failed))
