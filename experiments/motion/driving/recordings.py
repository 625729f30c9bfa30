"""Recordings of synchronised cameras as folders that `kind="frames"` reads."""

import pathlib

import numpy as np
from PIL import Image

from socialjepa_jax.data import FramesData, MotionData
from socialjepa_jax.data.arrays import read_array
from socialjepa_jax.data.folder.listing import read_table, visible_entries
from socialjepa_jax.data.frames.listing import FRAME
from socialjepa_jax.errors import InputError

TABLE = "states.csv"
DRIVE = ("left", "center", "right")  # cameras of a driving file, in its order
_BEND = 15  # moments over which the steering is averaged: about a second


def recording(given: str | None, out: pathlib.Path, frames: int) -> FramesData:
    """Returns the recording that is given, or one that is rendered, as data of their folder.

    Args:
        given: a folder of one folder of frames for each camera and `TABLE`; or a file of the
            Udacity simulator's three cameras, as `from_file` describes it; None: three cameras
            around a toy car.
        out: where a file is unpacked or a scene rendered, once.
        frames: of a rendered recording.

    Raises:
        InputError: the folder or the file is not as described.
    """
    folder = pathlib.Path(given) if given else out / f"rendered_{frames}"
    if given and folder.is_file():
        folder = from_file(folder, out / folder.stem)
    elif not given and not (folder / TABLE).exists():
        rendered(folder, frames)
    if not folder.is_dir():
        raise InputError(f"--frames={given}: no such file or folder")
    cameras = tuple(entry.name for entry in visible_entries(folder) if entry.is_dir())
    if len(cameras) < 2:
        raise InputError(f"--frames={given}: {len(cameras)} folders of cameras, two are needed")
    header = read_table(folder / TABLE, (FRAME,))[0]
    states = tuple(name for name in header if name != FRAME)
    return FramesData(path=str(folder), cameras=cameras, table=TABLE, states=states)


def from_file(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Unpacks a driving file into a folder of frames, once.

    The file holds `jpeg` u8[bytes] and `offset` i64[3 T + 1], left, center and right of every
    moment, and `steering_throttle_brake_speed` f32[T, 4]. States are steering, speed, and "bend":
    steering averaged over about a second around the moment, since it is keyed in jerks.
    """
    if (folder / TABLE).exists():
        return folder
    jpeg, offset = read_array(path, "jpeg", "u", (1,)), read_array(path, "offset", "iu", (1,))
    driven = read_array(path, "steering_throttle_brake_speed", "f", (2,))
    if len(offset) != 3 * len(driven) + 1:
        raise InputError(f"{path}: {len(offset)} offsets for {len(driven)} moments of 3 cameras")
    for k, camera in enumerate(DRIVE):
        (folder / camera).mkdir(parents=True, exist_ok=True)
        for t in range(len(driven)):
            start, stop = offset[3 * t + k : 3 * t + k + 2]
            (folder / camera / f"{t:06d}.jpg").write_bytes(jpeg[start:stop].tobytes())
    steering, speed = driven[:, 0].astype(np.float64), driven[:, 3]
    window = np.ones(_BEND)
    bend = np.convolve(steering, window, "same") / np.convolve(
        np.ones(len(steering)), window, "same"
    )
    _write_table(folder, ("steering", "speed", "bend"), np.stack([steering, speed, bend], axis=1))
    return folder


def rendered(folder: pathlib.Path, frames: int) -> None:
    """Renders one walk of a toy car as three cameras see it, with flicker."""
    data = MotionData(azimuths=(-80.0, 0.0, 80.0), image_size=32)
    film = data.film(frames)
    for k, images in enumerate(film.images):
        (folder / f"camera_{k}").mkdir(parents=True, exist_ok=True)
        for t, image in enumerate(images):
            Image.fromarray(np.pad(image, ((0, 0), (16, 16), (0, 0)), "edge")).save(
                folder / f"camera_{k}" / f"{t:06d}.png"
            )
    _write_table(folder, data.state_names, film.states)


def _write_table(folder: pathlib.Path, names: tuple[str, ...], states_TL: np.ndarray) -> None:
    lines = [",".join((FRAME, *names))]
    lines += [",".join((f"{t:06d}", *map(str, row))) for t, row in enumerate(states_TL.tolist())]
    (folder / TABLE).write_text("\n".join(lines) + "\n")
