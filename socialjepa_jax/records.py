"""Files of runs: paths, JSON that is replaced atomically, and row names in `alignment.json`.

Every layer may import this module, so that it imports JAX only where a device is asked for.
"""

import contextlib
import enum
import functools
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from socialjepa_jax.errors import InputError


class RowName(enum.StrEnum):
    """Names of the rows in `alignment.json`: pairs of latent spaces that are compared."""

    TRAINED = "trained"
    SAME_CAMERA = "same_camera"
    UNTRAINED = "untrained"
    UNTRAINED_SAME_INIT = "untrained_same_init"
    PIXEL_PCA = "pixel_pca"
    SHARED_FACTORS = "shared_factors"
    MISMATCHED_CELL = "mismatched_cell"
    MISMATCHED = "mismatched"
    PARTIALLED = "partialled"
    UNTRAINED_PARTIALLED = "untrained_partialled"
    PIXEL_PCA_PARTIALLED = "pixel_pca_partialled"
    ORTHOGONAL = "orthogonal"  # the trained agents, by Procrustes
    ACTIONS = "actions"  # the trained agents, by shared actions without one pair
    CYCLE = "cycle"  # three trained agents on three cameras: x by way of 'via' to y, and back
    CYCLE_ORTHOGONAL = "cycle_orthogonal"
    CYCLE_ACTIONS = "cycle_actions"
    CYCLE_UNTRAINED = "cycle_untrained"
    UNTRAINED_HIDDEN = "untrained_hidden"
    PIXEL_PCA_WIDE = "pixel_pca_wide"  # four times as many components
    RANDOM_PROJECTION = "random_projection"
    ALL_PIXELS = "all_pixels"  # a readout of the states by labels
    GIVEN = "given"  # latents that the alignment tool was given


CONTROLS = (
    RowName.UNTRAINED,
    RowName.UNTRAINED_SAME_INIT,
    RowName.PIXEL_PCA,
    RowName.SHARED_FACTORS,
    RowName.MISMATCHED_CELL,
    RowName.MISMATCHED,
)
"""Rows that show how far latents align without training, or without correct pairs."""

PARTIALLED = {
    RowName.TRAINED: RowName.PARTIALLED,
    RowName.UNTRAINED: RowName.UNTRAINED_PARTIALLED,
    RowName.PIXEL_PCA: RowName.PIXEL_PCA_PARTIALLED,
}
"""Row -> the same row after the shared factors are regressed out of both its spaces."""


CYCLES = {
    RowName.TRAINED: RowName.CYCLE,
    RowName.ORTHOGONAL: RowName.CYCLE_ORTHOGONAL,
    RowName.ACTIONS: RowName.CYCLE_ACTIONS,
    RowName.UNTRAINED: RowName.CYCLE_UNTRAINED,
}
"""Row of two agents -> the row of three that composes the same kind of map."""


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a JSON file atomically: a reader sees the old file or the new one.

    JSON has no NaN and no infinities; they become null. NumPy scalars and arrays become numbers
    and lists.
    """
    text = json.dumps(plain(value), indent=2, allow_nan=False)
    write_atomically(path, f"{text}\n".encode())


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path beside a file, which takes its place at the end or is removed.

    Nothing has that name before: a link, which another user of the folder may have made, is
    removed and not followed.
    """
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: pathlib.Path, data: bytes) -> None:
    """Writes a file and syncs it before it takes the place of the old one."""
    with replacing(path) as temporary, temporary.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def json_lines(path: pathlib.Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yields the lines of `metrics.jsonl` with the objects that they hold.

    The object is None where a line is damaged. A line that a kill has cut short is left out.
    """
    *lines, last = path.read_bytes().split(b"\n") if path.exists() else [b""]
    for line in lines:
        yield line, _measurement(line)
    if found := _measurement(last):
        yield last, found


def _measurement(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(value, dict) and type(value.get("step")) is int
    return value if known and isinstance(value.get("kind"), str) else None


def local_path(name: str, path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns an absolute path, with `~` replaced by a home folder and links followed.

    Args:
        name: of the flag or argument, for the message.
        path: a file or folder of this machine.

    Raises:
        InputError: it is an address such as gs://bucket, or cannot be resolved.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text := os.fspath(path)):
        raise InputError(f"{name}={text}: only local paths are supported")
    try:
        text.encode()  # checkpoints have paths in UTF-8
        return pathlib.Path(text).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{name}={text!r}: {error}") from None


def plain(value: Any) -> Any:
    """Returns the value with NumPy types as built-in ones, and non-finite numbers as None."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(child) for child in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_SETTINGS = {
    "x64": "jax_enable_x64",
    "prng_impl": "jax_default_prng_impl",
    "threefry_partitionable": "jax_threefry_partitionable",
    "matmul_precision": "jax_default_matmul_precision",
}  # key of `environment.json` -> option of jax


def versions() -> dict[str, str]:
    """Returns the versions, hardware and settings of jax that a result depends on."""
    import jax  # late: see the module's head

    packages = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "socialjepa_jax")
    found = {name: importlib.metadata.version(name) for name in packages}
    device = jax.devices()[0]
    return {
        **found,
        **{name: str(getattr(jax.config, option)) for name, option in _SETTINGS.items()},
        "disable_most_optimizations": str(jax.config.read("jax_disable_most_optimizations")),
        "xla_flags": " ".join(os.environ.get("XLA_FLAGS", "").split()),
        "revision": _revision(),
        "python": platform.python_version(),
        "devices": f"{len(jax.devices())} x {device.device_kind} ({device.platform})",
    }


@functools.cache
def _revision() -> str:
    """Commit of the source tree; "unknown" outside a git repository."""
    here = pathlib.Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
