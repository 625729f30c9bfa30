"""What a result depends on beside its configuration: versions, revision and hardware."""

import functools
import importlib.metadata
import pathlib
import platform
import subprocess

import jax


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
