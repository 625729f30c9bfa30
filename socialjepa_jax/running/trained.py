"""Trained encoders of a run's folder."""

import json
import pathlib

import jax
import numpy as np

from socialjepa_jax import build, config, sharding
from socialjepa_jax.data.protocols import ImageFeed
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.records import write_json
from socialjepa_jax.running.checkpoint import Checkpoints

_STATISTICS = "statistics.json"  # in a workdir


def load(path: str | pathlib.Path) -> Encoders:
    """Loads trained encoders.

    Args:
        path: a run's workdir, whose newest checkpoint is read, or the path of `Encoders.save`.

    Raises:
        InputError: there are no trained encoders at that path.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        return Encoders.load(path)
    try:
        experiment = config.from_config_dict(json.loads((path / "config.json").read_bytes()))
        statistics = json.loads((path / _STATISTICS).read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not the workdir of a run: {error}") from None
    parts = build.build(experiment, devices=jax.devices()[:1])
    with Checkpoints(path / "checkpoints", 1, read_only=True) as checkpoints:
        state = checkpoints.restore(parts.abstract_state)
    if state is None:
        raise InputError(f"{path} holds no checkpoint yet")
    params, aux = sharding.fetch((state.params, state.aux))
    mean, std = (np.asarray(statistics[name], np.float32) for name in ("mean", "std"))
    return Encoders(experiment, params, aux, mean, std)


def save_statistics(workdir: pathlib.Path, feed: ImageFeed) -> None:
    """Writes the pixel statistics of a run, which `load` reads."""
    mean, std = sharding.fetch((feed.mean, feed.std))
    write_json(workdir / _STATISTICS, {"mean": mean, "std": std})
