"""Trained encoders: of a run's folder, of files, or installed with the package."""

import hashlib
import json
import pathlib

import jax
import numpy as np

from socialjepa_jax import build, config, sharding
from socialjepa_jax.artefacts import FOLDER, RELEASED
from socialjepa_jax.data.protocols import ImageFeed
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.records import write_json
from socialjepa_jax.running.checkpoint import Checkpoints

_STATISTICS = "statistics.json"  # in a workdir


def load(path: str | pathlib.Path) -> Encoders:
    """Loads trained encoders.

    Args:
        path: a run's workdir, whose newest checkpoint is read, or the path of `Encoders.save`, or
            the name of encoders that are installed with the package, one of `artefacts.RELEASED`.
            Where a folder or files of that name exist, they are read.

    Raises:
        InputError: there are no trained encoders at that path.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        return Encoders.load(_files(path))
    try:
        experiment = config.from_config_dict(json.loads((path / "config.json").read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not the workdir of a run: {error}") from None
    mean, std = _statistics(path / _STATISTICS)
    if not (path / "checkpoints").is_dir():
        raise InputError(f"{path} holds no checkpoint yet")
    parts = build.build(experiment, devices=jax.devices()[:1])
    with Checkpoints(path / "checkpoints", 1, read_only=True) as checkpoints:
        state = checkpoints.restore(parts.abstract_state)
    if state is None:
        raise InputError(f"{path} holds no checkpoint yet")
    params, aux = sharding.fetch((state.params, state.aux))
    return Encoders(experiment, params, aux, mean, std)


def _files(path: pathlib.Path) -> pathlib.Path:
    """Returns the path that `Encoders.save` took, of the user's files or of released ones.

    Raises:
        InputError: there are neither.
    """
    if any(pathlib.Path(f"{path}{end}").exists() for end in (".json", ".safetensors")):
        return path
    if str(path) not in RELEASED:
        raise InputError(
            f"{path}: no workdir of a run, no files of encoders, and none of the released encoders "
            f"{', '.join(RELEASED)}"
        )
    return FOLDER / path


def save_statistics(workdir: pathlib.Path, feed: ImageFeed) -> None:
    """Writes the pixel statistics of a run and their digest, which `load` reads."""
    mean, std = sharding.fetch((feed.mean, feed.std))
    digest = _digest(mean, std)
    write_json(workdir / _STATISTICS, {"mean": mean, "std": std, "sha256": digest})


def _statistics(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads the mean and standard deviation f32[A, C] of the pixels.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        found = json.loads(path.read_bytes())
        mean, std = (np.asarray(found[name], np.float32) for name in ("mean", "std"))
        if found.get("sha256", _digest(mean, std)) != _digest(mean, std):  # older runs have none
            raise ValueError("its SHA-256 differs")
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise InputError(
            f"{path}: missing or damaged ({error}); the command of the run writes it anew"
        ) from None
    return mean, std


def _digest(mean: np.ndarray, std: np.ndarray) -> str:
    return hashlib.sha256(mean.tobytes() + std.tobytes()).hexdigest()
