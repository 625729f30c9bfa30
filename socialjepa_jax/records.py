"""JSON as every file of the project is written: whole or not at all, and readable anywhere."""

import functools
import importlib.metadata
import json
import math
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes JSON so that a reader sees the old file or the new one, never a part of it.

    Numbers that are not finite, which JSON does not know, become null; NumPy's numbers and arrays
    become plain ones.
    """
    text = json.dumps(plain(value), indent=2, allow_nan=False)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


def plain(value: Any) -> Any:
    """The value with NumPy's types replaced by plain ones, and numbers not finite by None."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(child) for child in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """Versions and hardware that a result depends on."""
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
    """The commit of the source tree, if it is one."""
    here = pathlib.Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
