"""Makes the encoders that are installed with the package, and measures them on states made afresh.

A preset is trained with the seeds that it names, and its first two agents, one on each camera, are
kept. The states that are measured on come from a seed that no run uses: 400 states of the world in
motion; 50 toys of another world, of which 10 are held out with all their views.

Command: python -m experiments.release --name=motion_lejepa --workdir=runs/motion_lejepa
Cost: 45 to 105 seconds for motion_lejepa, five minutes for toys_ijepa and eleven for toys_lejepa,
on two CPU cores.
Expected: two files a name in `socialjepa_jax/artefacts`, and an entry of `measured.json`: on fresh
states R2 of W 0.98, of the state 0.98 for motion_lejepa; R2 of W 0.57 for toys_ijepa and 0.65 for
toys_lejepa.
"""

import dataclasses
import importlib
import json
import pathlib
import tempfile

import jax
import numpy as np
from absl import flags

from experiments.motion.pairs import r2_of_map
from socialjepa_jax import artefacts, config, loop
from socialjepa_jax.data import MotionData, ToysData
from socialjepa_jax.data.base import Splits, ViewDataset, world_dataset
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


def fresh_toys(data: ToysData) -> ViewDataset:
    """Renders toys that are in no other data set, a fifth of them held out."""
    data = dataclasses.replace(
        data, seed=FRESH_SEED, instances=10, elevations=(0, 2, 4, 6, 8), lightings=(0, 3),
        splits=Splits(test_instances=2),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return data.load(pathlib.Path(folder))


def fresh(data: MotionData | ToysData) -> ViewDataset:
    """Renders states that no run has seen."""
    return fresh_motion(data) if isinstance(data, MotionData) else fresh_toys(data)


def measure(encoders: Encoders, dataset: ViewDataset) -> dict[str, float]:
    """Measures the first two agents on fresh states, held out from the fits.

    Args:
        encoders: of two agents or more.
        dataset: of `fresh`.

    Returns:
        r2, of the map from the first agent to the second; and where states are known state_r2, of
        their linear readout, the mean of both agents.
    """
    cameras, split = encoders.config.agents.cameras, splits(dataset)[0]
    latents = [encoders.encode(k, np.asarray(dataset.images[cameras[k]])) for k in (0, 1)]
    found = {"r2": r2_of_map(*latents, split.train, split.test)}
    if dataset.states is not None:
        scores = [readout_r2(z, dataset.states, split).mean() for z in latents]
        found["state_r2"] = float(np.mean(scores))
    return found


def first_two(encoders: Encoders) -> Encoders:
    """Returns the first two agents alone."""
    agents = encoders.config.agents
    agents = dataclasses.replace(agents, cameras=agents.cameras[:2], seeds=agents.seeds[:2])
    params, aux = jax.tree.map(lambda leaf: leaf[:2], (encoders.params, encoders.aux))
    chosen = dataclasses.replace(encoders.config, agents=agents)
    return Encoders(chosen, params, aux, encoders.mean[:2], encoders.std[:2])


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
    write(name, first_two(trained.load(workdir)), out)


def write(name: str, encoders: Encoders, out: pathlib.Path) -> None:
    """Writes encoders, without what encoding does not read, and their entry of `measured.json`.

    Args:
        name: of the preset.
        encoders: trained.
        out: folder of the files.
    """
    dataset = fresh(encoders.config.data)
    encoders.save(out / name, encoding=dataset.images[0])
    measured = out / artefacts.MEASURED.name
    entries = json.loads(measured.read_text()) if measured.exists() else {}
    entries[name] = {
        "command": f"python -m experiments.release --name={name} --workdir=runs/{name}",
        "seeds": list(encoders.config.agents.seeds),
        "steps": encoders.config.run.steps,
        "environment": versions(),
        "fresh": measure(encoders, dataset),
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
