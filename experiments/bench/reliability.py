"""What a run survives, measured: kills, signals, damaged and hostile files, bad numbers.

    python -m experiments.bench_reliability --quick

prints one table, a line a check, and ends with `N passed, M failed`. `--quick` takes minutes on two
cores, `--full` kills and damages five times as often.
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

from experiments.reliability import checks, data, groups, states, streams, topologies
from experiments.reliability.checks import Lab, Seen
from socialjepa_jax.errors import InputError, check_one_of


def table(factor: int) -> dict[str, tuple[str, Callable[[Lab], Seen]]]:
    """The checks: name -> (target, check)."""
    many = factor
    return {
        "kills": ("bit-identical, half from a checkpoint", partial(checks.kills, count=20 * many)),
        "mutations": ("every one noticed", states.mutations),
        "signals": ("15 of 15 saved", checks.signals),
        "bit_flips": ("0 of 150 silent", partial(checks.bit_flips, count=150 * many)),
        "damaged_latest": ("10 of 10 use the one before", checks.damaged_latest),
        "refusals": ("8 of 8 before compiling", checks.refusals),
        "locked": ("refused, taken over after a kill", checks.locked),
        "full_disk": ("exit 3, others intact", checks.full_disk),
        "skipped_batch": ("equal to the run without it", states.skipped_batch),
        "stops_after_many": ("exit 3, nothing saved", checks.stops_after_many),
        "hostile_files": (">= 60, 0 executed, 0 accepted", checks.hostile_files),
        "processes": (
            "equal to 1e-5, all end within 15 s, stop as one, the late named",
            groups.processes,
        ),
        "topologies": ("exact: 1 hash, else within 1e-5", topologies.topologies),
        "blocking": ("< 50 ms at 64 MiB", checks.blocking),
        "same_batches": ("equal for any processes and workers", data.same_batches),
        "same_losses": ("stream as resident", data.same_losses),
        "broken_records": ("counted, listed, exit 3 above the limit", data.broken_records),
        "stream_resumes": ("equal at the end", data.stream_resumes),
        "stream_processes": (
            "batches equal, end to 1e-5, stop as one, nothing left",
            partial(streams.stream_groups, every=factor > 1),
        ),
        "stream_leftovers": ("0 processes, 0 segments", data.stream_leftovers),
        "leftovers": ("0 and 0", checks.leftovers),
    }


def run(names: list[str], factor: int, folder: pathlib.Path) -> int:
    """Runs checks, prints the table and returns how many failed."""
    os.environ["SOCIALJEPA_LAB"] = str(folder)  # by which `leftovers` knows the children
    lab, failed, rows = Lab(folder), 0, table(factor)
    for name in names:
        check_one_of(tuple(rows), only=name)
    for name in names or rows:
        target, check = rows[name]
        start = time.monotonic()
        try:
            seen, passed = check(lab)
        except Exception as error:  # a check that dies is a check that fails
            seen, passed = f"{type(error).__name__}: {error}", False
        failed += not passed
        word = "passed" if passed else "FAILED"
        print(f"{word}  {name:16s}  {seen}  (target: {target}; {time.monotonic() - start:.0f} s)")
        sys.stdout.flush()
    print(f"{len(names or rows) - failed} passed, {failed} failed")
    return failed


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_bool("quick", False, "The short form (the default).")
    flags.DEFINE_bool("full", False, "Five times as many kills and flips.")
    flags.DEFINE_list("only", [], "Names of checks; default all.")


def main() -> None:
    """Runs the chosen checks in a temporary folder."""
    given = flags.FLAGS
    if given.quick and given.full:
        raise InputError("--quick or --full, not both")
    logging.set_verbosity(logging.FATAL)  # what is refused and set aside is reported by the table
    jax.config.update("jax_platforms", "cpu")
    with tempfile.TemporaryDirectory(prefix="reliability_") as folder:
        failed = run(given.only, 5 if given.full else 1, pathlib.Path(folder))
    sys.exit(bool(failed))
