"""Trains agents and reports how their latent spaces relate.

    python -m socialjepa_jax.train --preset=toys_ijepa --workdir=runs/toys
    python -m socialjepa_jax.train --config=my_config.py --workdir=runs/mine

Settings are overridden as `--config.run.steps=200`. A config file is Python and is executed; a
preset is one of those that come with the package.
Several processes run one experiment when each is started with `--coordinator=HOST:PORT
--num_processes=N --process_id=I`, or by SLURM's `srun`, as an indexed Kubernetes job with jax's
variables, or on a TPU slice, without flags.
They trust each other, and whoever can reach the port of the coordinator.
Exit codes: 0 done, 2 bad input, 3 stopped by a monitor or a full disk, 75 interrupted and saved
(run it again).
"""

import gc
import importlib.util
import os
import sys

if importlib.util.find_spec("flax") is None:
    print("error: training needs pip install 'socialjepa_jax[train]'", file=sys.stderr)
    sys.exit(2)

from absl import flags
from ml_collections import config_flags

from socialjepa_jax import config as config_lib
from socialjepa_jax import loop
from socialjepa_jax.errors import InputError
from socialjepa_jax.performance import compilation, profiling
from socialjepa_jax.records import local_path
from socialjepa_jax.running import hosts, launch, presets

_CONFIG = config_flags.DEFINE_config_file("config", None, "What to run.", lock_config=True)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of the run; an existing run is resumed.", required=True
)
_CACHE = flags.DEFINE_string(
    "compilation_cache",
    None,
    "Folder of compiled programs, which are executed; default: cache/xla "
    "beside the workdir, for this user alone.",
)
_PROFILE = flags.DEFINE_string(
    "profile_steps", None, "Steps to trace, as in 100:110; the trace goes to WORKDIR/profile."
)
flags.DEFINE_enum("preset", None, list(presets.PRESETS), "What to run, by name.")
_COORDINATOR = flags.DEFINE_string("coordinator", None, "host:port of process 0 of several.")
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "How many processes run together.")
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which of them this is, from 0.")
_PATIENCE = flags.DEFINE_float(
    "patience", 600.0, "Seconds to wait for another process at a barrier.", lower_bound=1.0
)
flags.mark_flag_as_required("config")  # which is what a preset becomes


def main() -> None:
    """Runs the experiment that the flags describe."""
    gc.freeze()  # going through all that was imported, again and again, is a tenth of tracing
    gc.set_threshold(50_000)
    try:
        config = _CONFIG.value.to_dict()
    except Exception as error:  # a file that cannot be loaded raises when it is first used
        raise InputError(f"--config: {error}") from None
    experiment = config_lib.from_config_dict(config)
    if not _WORKDIR.value:
        raise InputError("--workdir= must name a folder")
    workdir = local_path("--workdir", _WORKDIR.value)
    profile = profiling.Window.parse(_PROFILE.value) if _PROFILE.value is not None else None
    if _CACHE.value:
        cache = local_path("--compilation_cache", _CACHE.value)
        compilation.use_cache(cache, f"--compilation_cache={_CACHE.value}")
    else:
        compilation.use_own_cache(loop.cache_folder(workdir) / "xla", f"--workdir={workdir}")
    place = hosts.detect_process(
        _COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value, os.environ
    )
    with hosts.joined(place, _PATIENCE.value) as group:
        result = loop.fit(experiment, workdir, profile, group)
        if group.is_first:
            print(f"Report: {result.report}")


def cli() -> None:
    """Runs the command `socialjepa-train`."""
    launch.run(main, presets.expand)


if __name__ == "__main__":
    cli()
