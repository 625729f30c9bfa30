"""JSON files that are replaced atomically, and the names of the rows in `alignment.json`.

Every layer may import this module, so that it imports JAX only where a device is asked for.
"""

import enum
import functools
import importlib.metadata
import json
import math
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


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


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a JSON file atomically: a reader sees the old file or the new one.

    JSON has no NaN and no infinities; they become null. NumPy scalars and arrays become numbers
    and lists.
    """
    text = json.dumps(plain(value), indent=2, allow_nan=False)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


def plain(value: Any) -> Any:
    """Returns the value with NumPy types as built-in ones, and non-finite numbers as None."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(child) for child in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """Returns the versions and hardware that a result depends on."""
    import jax  # late: see the module's head

    packages = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "socialjepa_jax")
    found = {name: importlib.metadata.version(name) for name in packages}
    device = jax.devices()[0]
    return {
        **found,
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
