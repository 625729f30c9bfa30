"""Every kind of image data that users bring: tiny, in grey, with three images that are broken."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from experiments.reliability import runs
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import Splits
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.nuscenes import NuScenesData
from socialjepa_jax.data.records.reading import ONE_CAMERA
from socialjepa_jax.data.records.views import TwoViews
from tests.data.frames import drive
from tests.data.nuscenes import rig
from tests.data.records import record_files

SIDE, STEPS, STEPS_PER_CALL = runs.SIDE, 12, 2
BROKEN = (5, 11, 17)  # of the pictures; one of them at least is trained on
SPLITS = Splits(test_instances=2, test_states=0.25)  # of pictures
VIEWS = TwoViews(on=True, a=Augment(crop_scale=(0.2, 1.0)), b=Augment(flip=True))


def _pictures() -> list[record_files.Picture]:
    """The pictures of `record_files`, of which some are cut short."""
    return [
        (name, blob[:60] if number in BROKEN else blob, label)
        for number, (name, blob, label) in enumerate(record_files.pictures())
    ]


def _class_folders(root: pathlib.Path) -> FolderData:
    for name, blob, label in _pictures():
        folder = root / record_files.NAMES[label]
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(blob)
    return FolderData(path=str(root), protocol=ONE_CAMERA, splits=SPLITS)


def _two_views(root: pathlib.Path) -> FolderData:
    return dataclasses.replace(_class_folders(root), views=VIEWS)


def _nuscenes(root: pathlib.Path) -> NuScenesData:
    rig.write(root)
    for name in ("0_1.jpg", "3_1.jpg", "4_2.jpg"):
        (root / "samples" / "CAM_FRONT" / name).write_bytes(b"\xff\xd8")
    splits = Splits(test_instances=0, test_states=0.4)
    return NuScenesData(path=str(root), version=rig.VERSION, splits=splits)


def _frames(root: pathlib.Path) -> Any:
    data = drive.write(root)
    for name in ("f_7.png", "f_27.png", "f_47.png"):
        (root / "left" / name).write_bytes(b"")
    return data


def _records(name: str) -> Callable[[pathlib.Path], Any]:
    return lambda root: dataclasses.replace(
        record_files.WRITERS[name](root, _pictures()), splits=SPLITS
    )


KINDS: dict[str, Callable[[pathlib.Path], Any]] = {
    "class folders": _class_folders,
    "two views": _two_views,
    "nuscenes": _nuscenes,
    "frames": _frames,
    **{name: _records(name) for name in record_files.WRITERS},
}


def experiment(name: str, root: pathlib.Path, **fields: Any) -> Experiment:
    """Writes the data of a kind and returns a run of three agents on them.

    Args:
        name: of the kind.
        root: folder of the data.
        fields: of the data.
    """
    root.mkdir()
    given = {"image_size": SIDE, "channels": 1, "read": "stream", "workers": 0, "max_broken": 0.2}
    data = dataclasses.replace(KINDS[name](root), **given | fields)
    base = runs.experiment(root, STEPS)
    run = dataclasses.replace(base.run, steps_per_call=STEPS_PER_CALL, log_every=STEPS_PER_CALL)
    cameras = (0, data.num_cameras - 1, 0)
    return dataclasses.replace(base, data=data, run=run, agents=Agents(cameras, (0, 1, 2)))
