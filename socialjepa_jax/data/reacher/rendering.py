"""The arm of DMC Reacher through a camera, rendered by MuJoCo; the only file that imports it.

MuJoCo is optional: whatever is in the cache needs neither it nor dm_control.

Shape key: N states, H height, W width.
"""

import dataclasses
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from socialjepa_jax.errors import InputError, check_in_range

VERSION = "3.17"  # of MuJoCo; dm_control fails with version 4
INSTALL = "pip install 'socialjepa_jax[reacher]'"
TARGET, RADIUS = (0.1, 0.1), 0.015  # metres; fixed, so that the joints alone move the image
SIZE = 64  # pixels of an image's side; the paper's
SHADOW_MAP = 512  # pixels; the images differ from those of the shipped 2,048 by 0.01 of 255


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera that looks at the shoulder; that of the suite has no tilt and no turn.

    Attributes:
        tilt: of the line of sight against the vertical, degrees.
        turn: of the camera about the vertical, degrees.
        size: H = W, pixels.
    """

    tilt: float = 0.0
    turn: float = 0.0
    size: int = 64

    def __post_init__(self) -> None:
        check_in_range(0.0, 80.0, tilt=self.tilt)
        check_in_range(-360.0, 360.0, turn=self.turn)
        check_in_range(8, 1024, size=self.size)

    @property
    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Direction from the shoulder f64[3], and the quaternion f64[4] (w, x, y, z)."""
        tilt, turn = np.radians(self.tilt), np.radians(self.turn)
        place = np.array([np.sin(tilt) * np.sin(turn), -np.sin(tilt) * np.cos(turn), np.cos(tilt)])
        # First the tilt about x, then the turn about z.
        (cx, cz), (sx, sz) = np.cos([tilt / 2, turn / 2]), np.sin([tilt / 2, turn / 2])
        return place, np.array([cz * cx, cz * sx, sz * sx, sz * cx])


@functools.cache
def mujoco() -> Any:
    """Imports MuJoCo, with EGL on Linux where the environment chooses nothing else.

    Raises:
        InputError: it is missing or has another version; the message names the cure.
    """
    if sys.platform == "linux":
        os.environ.setdefault("MUJOCO_GL", "egl")  # read at the first import
    try:
        import mujoco as module
    except ImportError as error:
        raise InputError(f"data.kind='reacher' needs MuJoCo ({error}): {INSTALL}") from None
    if not module.__version__.startswith(f"{VERSION}."):
        raise InputError(
            f"mujoco=={module.__version__} cannot load DMC Reacher: pip install "
            f"'mujoco=={VERSION}.*'"
        )
    return module


def load_model() -> Any:
    """Loads the suite's `hard` model with the fixed target: an `mjModel`.

    Raises:
        InputError: dm_control is missing.
    """
    module = mujoco()
    try:
        from dm_control.suite import reacher
    except ImportError as error:
        raise InputError(f"data.kind='reacher' needs dm_control ({error}): {INSTALL}") from None
    xml, assets = reacher.get_model_and_assets()
    model = module.MjModel.from_xml_string(xml.decode() if isinstance(xml, bytes) else xml, assets)
    model.geom("target").pos[:2] = TARGET
    model.geom("target").size[0] = RADIUS
    return model


def photograph(states_N2: np.ndarray, camera: Camera) -> np.ndarray:
    """Renders joint angles as a camera sees them.

    Args:
        states_N2: f64[N, 2], shoulder and wrist, radians; the joint limit is not applied.
        camera: where from, and how large.

    Returns:
        uint8[N, H, W, 3].

    Raises:
        InputError: MuJoCo or dm_control is missing, or no renderer works.
    """
    module, model = mujoco(), load_model()
    place, quaternion = camera.pose
    eye = model.camera("fixed")
    eye.pos[:], eye.quat[:] = np.linalg.norm(eye.pos) * place, quaternion
    model.vis.quality.shadowsize = SHADOW_MAP
    data, images = module.MjData(model), []
    with _renderer(model, camera.size) as renderer:
        for angles in np.asarray(states_N2, np.float64):
            data.qpos[:] = angles
            module.mj_forward(model, data)
            renderer.update_scene(data, camera="fixed")
            images.append(renderer.render().copy())
    return np.stack(images)


@contextmanager
def _renderer(model: Any, size: int) -> Iterator[Any]:
    """Opens a renderer off screen, and closes it: OSMesa complains if the interpreter has to."""
    try:
        renderer = mujoco().Renderer(model, size, size)
    except Exception as error:  # every back end fails in its own way
        chosen = os.environ.get("MUJOCO_GL", "")
        raise InputError(
            f"MUJOCO_GL={chosen}: no renderer ({type(error).__name__}): MUJOCO_GL=egl needs "
            "libegl1 and libgl1-mesa-dri, MUJOCO_GL=osmesa needs libosmesa6"
        ) from None
    try:
        yield renderer
    finally:
        renderer.close()
