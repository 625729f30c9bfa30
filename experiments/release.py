"""Makes the encoders that are installed with the package, and measures them on states made afresh.

A preset is trained with the seeds that it names. The states that are measured on come from a seed
that no run uses, and half of them is held out from every fit.

Command: python -m experiments.release --name=motion_lejepa --workdir=runs/motion_lejepa
Cost: 45 seconds on two CPU cores.
Expected: two files in `socialjepa_jax/artefacts`, and an entry of `measured.json`: on 400 fresh
states R2 of W 0.98, of the state 0.98.
"""

import importlib
import json
import pathlib

import jax
import numpy as np
from absl import flags

from experiments.motion.pairs import r2_of_map
from socialjepa_jax import artefacts, config, loop
from socialjepa_jax.data import MotionData
from socialjepa_jax.data.base import ViewDataset, world_dataset
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.evaluation.splits import splits
from socialjepa_jax.records import versions, write_json
from socialjepa_jax.running import launch, trained

FRESH_SEED, STATES = 40_000, 400


def fresh_motion(data: MotionData) -> ViewDataset:
    """Renders states of a world in motion with standard normal latents."""
    states = np.random.default_rng(FRESH_SEED).normal(size=(STATES, data.num_latents))
    keys = jax.random.split(jax.random.key(FRESH_SEED), data.num_cameras)
    images = [data.photograph(states, k, key, block=STATES) for k, key in enumerate(keys)]
    return world_dataset("fresh", np.stack(images), states, data.state_names, data.splits)


def measure(encoders: Encoders) -> dict[str, float]:
    """Measures the first two agents on fresh states.

    Returns:
        r2, of the map from the first agent to the second; state_r2, of their linear readouts of the
        state, the mean of both agents.
    """
    data = encoders.config.data
    assert isinstance(data, MotionData)
    dataset = fresh_motion(data)
    cameras, split = encoders.config.agents.cameras, splits(dataset)[0]
    latents = [encoders.encode(k, np.asarray(dataset.images[cameras[k]])) for k in (0, 1)]
    assert dataset.states is not None
    scores = [readout_r2(z, dataset.states, split).mean() for z in latents]
    return {
        "r2": r2_of_map(*latents, split.train, split.test),
        "state_r2": float(np.mean(scores)),
    }


def release(name: str, workdir: pathlib.Path, out: pathlib.Path) -> None:
    """Trains a preset, or reads its finished run, and writes its encoders and their measurements.

    Args:
        name: one of `artefacts.RELEASED`.
        workdir: of the run.
        out: folder of the files.
    """
    preset = importlib.import_module(f"configs.{name}")
    experiment = config.from_config_dict(preset.get_config())
    loop.fit(experiment, workdir)
    encoders = trained.load(workdir)
    encoders.save(out / name)
    measured = out / artefacts.MEASURED.name
    entries = json.loads(measured.read_text()) if measured.exists() else {}
    entries[name] = {
        "command": f"python -m experiments.release --name={name} --workdir=runs/{name}",
        "seeds": list(experiment.agents.seeds),
        "steps": experiment.run.steps,
        "environment": versions(),
        "fresh": measure(encoders),
    }
    write_json(measured, entries)


def main() -> None:
    """Makes the files of one name."""
    if flags.FLAGS.name not in artefacts.RELEASED:
        raise InputError(f"--name={flags.FLAGS.name} must be one of {artefacts.RELEASED}")
    workdir, out = (pathlib.Path(path) for path in (flags.FLAGS.workdir, flags.FLAGS.out))
    release(flags.FLAGS.name, workdir, out)


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_string("name", None, "Preset to train.", required=True)
    flags.DEFINE_string("workdir", None, "Folder of the run.", required=True)
    flags.DEFINE_string("out", str(artefacts.FOLDER), "Folder of the encoders.")


if __name__ == "__main__":
    define_flags()
    launch.run(main)
