"""Time from a command to its first training step, with and without compiled programs on disk.

Runs `python -m socialjepa_jax.train` three times: cold, with nothing compiled; warm, in another
workdir, with the programs that the first run compiled; and once more in the same workdir after a
signal. The seconds until a step is reported include imports, tracing, compiling or loading,
measuring the devices and the step; in a new workdir also the evaluation of untrained encoders, in
an old one restoring. The images are rendered before. The networks are the two ViT-S/16 of
`toys_ijepa_vits`, on so few and small images that the start takes most of the time.

Command: taskset -c 0 python -m experiments.bench_start [--out=FILE.json]
Cost: 2 minutes on one CPU core.
Expected: warm / cold compilation of the step 0.21 (4.4 over 21.2 s; target 0.25); to the first
step 0.28 to 0.30 in the same workdir (10.9 to 11.8 over 39.5 s), 0.36 in another one.
"""

import dataclasses
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import jax
import ml_collections
from absl import flags

from configs import smoke, toys_ijepa_vits
from experiments.bench import results
from experiments.bench.results import Result
from socialjepa_jax import config as config_lib
from socialjepa_jax import loop

_ROOT = pathlib.Path(__file__).parents[2]
_TARGET = 0.25


def get_config(size: str = "full") -> ml_collections.ConfigDict:
    """Returns the runs' config: `toys_ijepa_vits` on few images; "tiny": with tiny networks."""
    whole = toys_ijepa_vits.get_config()
    config = smoke.shrink(whole, steps=1000)
    config.run.eval_every = config.run.save_every = 1000
    if size == "full":
        config.objective = whole.objective
        config.objective.vit.image_size = config.data.image_size = 96
        config.data.lightings = (0,)
        config.run.batch_size, config.run.encode_batch = 4, 15
    return config


@dataclasses.dataclass(frozen=True)
class Start:
    """Seconds from a command to its first reported step.

    Attributes:
        wall: wall time until the step.
        cpu: CPU time of all cores until the end.
        compile: time to trace and compile (or load) the step, as the run reports it.
    """

    wall: float
    cpu: float
    compile: float


def first_step(size: str, workdir: pathlib.Path, end: signal.Signals = signal.SIGKILL) -> Start:
    """Starts a run of `get_config(size)` and ends it by a signal when it reports its first step.

    Raises:
        RuntimeError: the run ended before its first step; with its last line.
    """
    command = [sys.executable, "-m", "socialjepa_jax.train"]
    command += [f"--config={__file__}:{size}", f"--workdir={workdir}"]
    begin, last, wall, compiling = time.perf_counter(), "", None, math.nan
    with subprocess.Popen(
        command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        for last in child.stderr:
            if found := re.match(r"Compiled in ([\d.]+) s", last):
                compiling = float(found[1])
            if re.match(r"step \d+/", last):
                wall = time.perf_counter() - begin
                break
        os.kill(child.pid, end)  # `send_signal` would take the status of a child that has ended
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status  # or leaving the block would wait for it again
    if wall is None:
        raise RuntimeError(f"no step was done: {last.strip()}")
    return Start(wall, used.ru_utime + used.ru_stime, compiling)


def measure(size: str, folder: pathlib.Path) -> list[Result]:
    """Compares a cold start, a warm one and a restart, all in an empty folder."""
    experiment = config_lib.from_config_dict(get_config(size).to_dict())
    experiment.data.load(loop.cache_folder(folder / "cold"))
    cold, warm = (first_step(size, folder / name) for name in ("cold", "warm"))
    first_step(size, folder / "warm", end=signal.SIGTERM)  # saves its step
    if not any((folder / "warm" / "checkpoints").glob("[0-9]*")):
        raise RuntimeError("nothing was saved to start again from")
    again = first_step(size, folder / "warm")
    return [
        _over("warm / cold start, the same workdir", again.wall, cold.wall),
        _over("warm / cold start, another workdir", warm.wall, cold.wall),
        _over("warm / cold compilation of the step", warm.compile, cold.compile),
        _over("warm / cold start, CPU time, the same workdir", again.cpu, cold.cpu),
    ]


def _over(name: str, warm: float, cold: float) -> Result:
    return Result(name, warm / cold, _TARGET, False, note=f"{warm:.1f} s over {cold:.1f} s")


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_bool("rehearse", False, "Tiny networks: all runs, no figure means anything.")
    flags.DEFINE_string("out", None, "JSON file.")


def main() -> None:
    """Prints the table and writes the figures."""
    jax.config.update("jax_platforms", "cpu")  # a GPU's memory is for the runs
    given = flags.FLAGS
    out = results.out_file(given.out)
    with tempfile.TemporaryDirectory(prefix="start_") as name:
        folder = pathlib.Path(name)
        found = measure("tiny" if given.rehearse else "full", folder)
        runs = json.loads((folder / "cold" / "performance.json").read_text())
    results.publish(found, out, device=runs["hardware"]["name"])
