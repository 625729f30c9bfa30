"""Reliability of runs: kills, signals, damaged and hostile files, bad batches, several processes.

Prints one table, a line for each check, and ends with `N passed, M failed`.

Command: python -m experiments.bench_reliability --quick
Cost: 12 minutes on 2 CPU cores; `--full` kills, flips and steps five times as often.
Expected: 30 passed, 0 failed. Of 20 kills, 19 leave a checkpoint to go on from, 0 losses differ;
0 of 150 flipped bits are restored silently; 2 processes x 2 devices end within 4.5e-8 of 1 x 4.
"""

import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable

import jax
from absl import flags, logging

from experiments.reliability import (
    checkpoints,
    folders,
    hostile,
    hosts,
    interruptions,
    refusals,
    states,
    stream_hosts,
    streams,
    surroundings,
    topologies,
)
from experiments.reliability.fixture import Figures, Fixture
from socialjepa_jax.errors import InputError, check_one_of

CHECKS: dict[Callable[..., Figures], str] = {
    interruptions.kills: "bit-identical, half from a checkpoint",
    states.mutations: "every one noticed",
    interruptions.signals: "20 of 20 saved",
    checkpoints.bit_flips: "0 of 150 silent",
    checkpoints.damaged_latest: "10 of 10 use the one before",
    refusals.refusals: "8 of 8 before compiling",
    folders.planted_links: "all refused by name, targets intact",
    folders.damaged_folders: "refused or gone on, <= 2 lines lost",
    folders.places: "odd, stale or moved: all end, equal",
    interruptions.locked: "refused, taken over after a kill",
    checkpoints.full_disk: "exit 3, others intact",
    folders.full_elsewhere: "exit 3 with one line, then equal",
    surroundings.environments: "equal, or refused by name",
    surroundings.clock_jumps: "equal",
    surroundings.races: "one of 4 runs, 3 refused",
    surroundings.pauses: "equal; a pair goes on",
    surroundings.growth: "< 20 MB and <= 2 files more",
    states.skipped_batch: "equal to the run without it",
    states.stops_after_many: "exit 3, nothing saved",
    hostile.hostile_files: ">= 60, 0 executed, 0 accepted",
    hosts.processes: "equal to 1e-5, all end within 15 s, stop as one, the late named",
    topologies.topologies: "exact: 1 hash, else within 1e-5",
    checkpoints.blocking: "< 50 ms at 64 MiB",
    streams.same_batches: "equal for any processes and workers",
    streams.same_losses: "stream as resident",
    streams.broken_records: "counted, listed, exit 3 above the limit",
    streams.stream_resumes: "equal at the end",
    stream_hosts.stream_processes: "batches equal, end to 1e-5, stop as one, nothing left",
    streams.stream_leftovers: "0 processes, 0 segments",
    interruptions.leftovers: "0 and 0",
}
"""Every check and its target, in the order of the table, where its name is the function's."""


def run(names: list[str], factor: int, folder: pathlib.Path) -> int:
    """Runs checks, prints the table and returns how many failed.

    Args:
        names: of the checks; all if there are none.
        factor: multiplies kills and flipped bits; above 1, every layout is streamed.
        folder: for the workdirs.

    Raises:
        InputError: a name is unknown.
    """
    os.environ["SOCIALJEPA_RELIABILITY"] = str(folder)  # marks the processes for `leftovers`
    settings: dict[str, dict[str, int]] = {
        "kills": {"count": 20 * factor},
        "bit_flips": {"count": 150 * factor},
        "damaged_folders": {"count": 100 * factor},
        "growth": {"steps": 2000 * factor},
        "stream_processes": {"every": factor > 1},
    }
    fixture, failed, checks = Fixture(folder), 0, {check.__name__: check for check in CHECKS}
    for name in names:
        check_one_of(tuple(checks), only=name)
    for name in names or checks:
        start = time.monotonic()
        try:
            figures = checks[name](fixture, **settings.get(name, {}))
        except Exception as error:  # a check that raises has failed
            figures = Figures.of(**{type(error).__name__: (str(error), False)})
        failed += not figures.passed
        seconds, target = time.monotonic() - start, CHECKS[checks[name]]
        word = "passed" if figures.passed else "FAILED"
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
