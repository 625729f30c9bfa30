"""From a command to its first finished training step, with and without compiled programs at hand.

    taskset -c 0 python -m experiments.bench_start [--out=FILE.json]

Runs `python -m socialjepa_jax.train` in processes of their own: cold, where nothing is compiled;
warm, in another workdir, with what the first one left beside its own; and restarted, the very same
command once more after a signal. Counted are seconds until a step is reported: imports, tracing,
compiling or loading, measuring the devices, the step; in a new workdir also drawing and evaluating
the untrained encoders, in an old one restoring. Pictures are rendered before. The networks are
those of `toys_ijepa_vits` (two ViT-S/16), on few and small pictures, so that what takes time is the
start. Cost: two minutes of one core.
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

import ml_collections
from absl import flags

from configs import smoke, toys_ijepa_vits
from experiments.bench import results
from experiments.bench.results import Result
from socialjepa_jax import config as config_lib
from socialjepa_jax import loop
from socialjepa_jax.records import write_json

_ROOT = pathlib.Path(__file__).parents[2]
_TARGET = 0.25


def get_config(size: str = "full") -> ml_collections.ConfigDict:
    """What the command runs: `toys_ijepa_vits` on few pictures; "tiny": with a network to match."""
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
        wall: until the step, of wall time.
        cpu: until the end, of all cores.
        compile: that tracing and compiling (or loading) the step took, as the program says.
    """

    wall: float
    cpu: float
    compile: float


def first_step(size: str, workdir: pathlib.Path, end: signal.Signals = signal.SIGKILL) -> Start:
    """Starts a run of `get_config(size)`, ends it by a signal when its first step is reported.

    Raises:
        RuntimeError: it ended by itself before that; with its last line.
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
        child.returncode = status  # nothing is left to wait for
    if wall is None:
        raise RuntimeError(f"no step was done: {last.strip()}")
    return Start(wall, used.ru_utime + used.ru_stime, compiling)


def measure(size: str, folder: pathlib.Path) -> list[Result]:
    """Starts cold, warm, and again, in an empty folder, and compares."""
    experiment = config_lib.from_config_dict(get_config(size).to_dict())
    experiment.data.load(loop.cache_folder(folder / "cold"))
    cold, warm = (first_step(size, folder / name) for name in ("cold", "warm"))
    first_step(size, folder / "warm", end=signal.SIGTERM)  # which saves the step it is at
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
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_bool("rehearse", False, "A tiny network: everything runs, nothing means anything.")
    flags.DEFINE_string("out", None, "JSON file.")


def main() -> None:
    """Command line."""
    given = flags.FLAGS
    out = results.out_file(given.out)
    with tempfile.TemporaryDirectory(prefix="start_") as name:
        folder = pathlib.Path(name)
        found = measure("tiny" if given.rehearse else "full", folder)
        runs = json.loads((folder / "cold" / "performance.json").read_text())  # this has no GPU
    print(results.show(found))
    if out:
        here = {**results.here(), "device": runs["hardware"]["name"]}
        write_json(out, {**here, "rows": [result.row() for result in found]})
