"""A data root of nuScenes' layout: four scenes of three logs, key rows and others, six cameras."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from socialjepa_jax.data.nuscenes import CHANNELS
from tests.data.image_folder import encoded

VERSION = "v1.0-mini"
OFFSETS_US = dict(zip(CHANNELS, (0, -7_600, 7_900, 25_100, 35_000, 15_400)))
SCENES = {  # name -> (log, description)
    "scene-0001": ("log-a", "Parked cars, bus, Rain"),
    "scene-0002": ("log-a", "Turn left, wet road after rain"),
    "scene-0003": ("log-b", "Construction, ped crossing"),
    "scene-0004": ("log-c", "Night, difficult lighting"),
    "scene-0005": ("log-c", "Night, rain, bicycle"),
    "scene-0006": ("log-b", "Wait at intersection"),
}
SAMPLES = 4  # of a scene, half a second apart
Tables = dict[str, list[dict[str, Any]]]


def image(scene: int, sample: int, camera: int) -> np.ndarray:
    """A key frame: uint8 [9, 16, 3], one colour that names its scene, sample and camera."""
    colour = np.array([40 * scene, 60 * sample, 40 * camera], np.uint8)
    return np.broadcast_to(colour, (9, 16, 3))


def tables() -> Tables:
    """The six tables; rows that are no key frames carry the token of the sample that follows."""
    found: Tables = {name: [] for name in ("log", "scene", "sample", "sample_data")}
    found["log"] = [{"token": f"t-{log}", "logfile": log} for log in ("log-a", "log-b", "log-c")]
    modalities = [*((channel, "camera") for channel in CHANNELS), ("LIDAR_TOP", "lidar")]
    found["sensor"] = [
        {"token": f"sensor-{name}", "channel": name, "modality": kind} for name, kind in modalities
    ]
    found["calibrated_sensor"] = [
        {"token": f"calib-{log}-{name}", "sensor_token": f"sensor-{name}",
         "camera_intrinsic": [[1.0, 0.0], [0.0, 1.0]]}
        for log in ("log-a", "log-b", "log-c")
        for name, _ in modalities
    ]  # fmt: skip
    for number, (scene, (log, text)) in enumerate(SCENES.items()):
        found["scene"].append(
            {"token": f"t-{scene}", "name": scene, "description": text, "log_token": f"t-{log}"}
        )
        for k in range(SAMPLES):
            token, time = f"sample-{number}-{k}", 10**15 + 10**8 * number + 500_000 * k
            found["sample"].append({"token": token, "timestamp": time, "scene_token": f"t-{scene}"})
            for channel, _ in modalities:
                for key in (False, True):
                    folder = "samples" if key else "sweeps"
                    late = OFFSETS_US.get(channel, 0) + 1000 * k - (0 if key else 80_000)
                    found["sample_data"].append(
                        {"token": f"data-{number}-{k}-{channel}-{key}", "sample_token": token,
                         "calibrated_sensor_token": f"calib-{log}-{channel}",
                         "timestamp": time + late, "is_key_frame": key, "fileformat": "jpg",
                         "filename": f"{folder}/{channel}/{number}_{k}.jpg"}
                    )  # fmt: skip
    found["sample"].reverse()  # rows have no order
    found["sample_data"].reverse()
    return found


def write_tables(root: pathlib.Path, found: Tables) -> None:
    (root / VERSION).mkdir(parents=True)
    for name, rows in found.items():
        (root / VERSION / f"{name}.json").write_text(json.dumps(rows))


def write(
    root: pathlib.Path, change: Callable[[Tables], object] = lambda tables: None
) -> pathlib.Path:
    """Writes the tables, after a change, and the key frames of the cameras."""
    found = tables()
    change(found)
    write_tables(root, found)
    for camera, channel in enumerate(CHANNELS):
        folder = root / "samples" / channel
        folder.mkdir(parents=True)
        for scene in range(len(SCENES)):
            for k in range(SAMPLES):
                blob = encoded(image(scene, k, camera), "JPEG", quality=95)
                (folder / f"{scene}_{k}.jpg").write_bytes(blob)
    return root
