"""nuScenes as a view dataset: a state is a key-frame sample, its views are the car's cameras.

Shape key: K cameras, N samples, G groups (scenes or logs).
"""

import dataclasses
import pathlib

import numpy as np
from absl import logging

from socialjepa_jax.data import base
from socialjepa_jax.data.files import FITS, Files, check_reading
from socialjepa_jax.data.nuscenes import tables
from socialjepa_jax.data.nuscenes.tables import CHANNELS, CONDITIONS, KeyFrames
from socialjepa_jax.data.protocols import ImageFeed, Opening
from socialjepa_jax.data.streaming import open_images
from socialjepa_jax.errors import ImageSize, InputError, check_one_of, expand_user

PAIRS: dict[str, tuple[str, ...]] = {
    "front_rear": ("CAM_FRONT", "CAM_BACK"),
    "front_left": ("CAM_FRONT", "CAM_FRONT_LEFT"),
    "front_right": ("CAM_FRONT", "CAM_FRONT_RIGHT"),
    "front_back_left": ("CAM_FRONT", "CAM_BACK_LEFT"),
    "front_back_right": ("CAM_FRONT", "CAM_BACK_RIGHT"),
    "left_right": ("CAM_FRONT_LEFT", "CAM_FRONT_RIGHT"),
    "rear_left": ("CAM_BACK", "CAM_BACK_LEFT"),
    "rear_right": ("CAM_BACK", "CAM_BACK_RIGHT"),
    "all": CHANNELS,
}
"""Cameras by the name of a pair; front and rear share no pixel, neighbours overlap."""

SPLITS_BY = ("scene", "log", "token")
_SHOWN = 3  # tokens that a message lists


@dataclasses.dataclass(frozen=True)
class NuScenesData:
    """Key frames of nuScenes; the cameras of a pair see the same sample, some ms apart.

    Factors are the condition (category), the scene (instance) and the log. Social-JEPA's "front vs.
    side" names no camera: it may be "front_left" (which overlaps with the front) or
    "front_back_left" (which does not).

    Attributes:
        kind: "nuscenes".
        path: data root, which holds the folder `version` and the images' folder `samples`.
        version: folder of the tables: "v1.0-trainval", "v1.0-mini", ...
        pair: cameras of the agents, a name of `PAIRS`; "all": six.
        split_by: what is held out whole: "scene" (20 s of a drive) | "log" (a drive, of which
            several scenes are cut) | "token" (single samples: Social-JEPA's choice, which leaves
            the neighbour half a second away on the other side, and is flagged).
        image_size: side, or (height, width), that images are resized to, pixels.
        channels: 1 (luma) or 3.
        fit: "centre": the central part with the proportions of `image_size` | "stretch".
        splits: `test_states` is the share of scenes, logs or samples that is held out.
        read, workers, max_broken: see `FolderData`.
    """

    kind: str = "nuscenes"
    path: str = ""
    version: str = "v1.0-trainval"
    pair: str = "front_rear"
    split_by: str = "scene"
    image_size: ImageSize = 224
    channels: int = 3
    fit: str = "centre"
    splits: base.Splits = base.Splits(test_instances=0, test_states=0.2)
    read: str = "stream"
    workers: int = 2
    max_broken: float = 0.01

    def __post_init__(self) -> None:
        check_one_of(("nuscenes",), kind=self.kind)
        check_one_of(tuple(PAIRS), pair=self.pair)
        check_one_of(SPLITS_BY, split_by=self.split_by)
        check_one_of(FITS, fit=self.fit)
        check_reading(self.image_size, self.channels, self.read, self.workers, self.max_broken)
        if self.splits.test_instances:
            raise InputError(
                f"splits.test_instances={self.splits.test_instances} must be 0: test_states is "
                "the share of scenes, logs or samples that is held out"
            )

    @property
    def cameras(self) -> tuple[str, ...]:
        """Channels of the cameras, in the order of their numbers."""
        return PAIRS[self.pair]

    @property
    def num_cameras(self) -> int:
        """K."""
        return len(self.cameras)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Lists the key frames, and reads them if `read` is "resident".

        A sample that lacks a camera of the pair is dropped and counted.

        Args:
            cache_dir: unused; the pair table is written beside the tables.

        Returns:
            The view dataset; its images are `Files` if `read` is "stream".

        Raises:
            InputError: a table or a file is missing or contradicts another one.
        """
        del cache_dir
        root = pathlib.Path(expand_user(self.path, "path"))
        if not self.path or not root.is_dir():
            raise InputError(f"path={self.path!r}: no such folder")
        every = tables.read(root, self.version)
        rows = [CHANNELS.index(camera) for camera in self.cameras]
        complete = (every.files[rows] != "").all(axis=0)
        if not complete.any():
            raise InputError(f"{root / self.version}: no sample has {' and '.join(self.cameras)}")
        frames = every.select(complete)
        count = len(frames.token)
        files = Files(
            root.resolve(),
            tuple(frames.files[rows].ravel().tolist()),
            np.arange(len(rows) * count).reshape(len(rows), count),
            self.image_size,
            self.channels,
            broken_is_black=self.read == "stream",
            fit=self.fit,
        )
        held_out = self._held_out(frames)
        facts = self._facts(frames, rows, every.token[~complete])
        for heading, text in facts.items():
            logging.info("%s: %s", heading, text)
        return self._dataset(files, frames, complete, held_out, tuple(facts.items()))

    def open_feed(self, dataset: base.ViewDataset, opening: Opening) -> ImageFeed:
        """Opens a stream of the files, or puts all images on the devices."""
        return open_images(dataset, opening, self.workers, self.max_broken)

    def _dataset(
        self,
        files: Files,
        frames: KeyFrames,
        complete: np.ndarray,
        held_out: np.ndarray,
        facts: tuple[tuple[str, str], ...],
    ) -> base.ViewDataset:
        """Makes the view dataset of the complete samples."""
        conditions = _conditions(frames)
        names = tuple(name for name in CONDITIONS if name in conditions)
        labels = np.array([names.index(name) for name in conditions], np.int32)
        scenes, logs = (_numbers(tokens) for tokens in (frames.scene_token, frames.log))
        by_token = self.split_by == "token"
        nothing = np.zeros(len(labels), np.int32)
        return base.ViewDataset(
            name=f"nuScenes {self.version} {self.pair}",
            images=files if self.read == "stream" else np.asarray(files),
            state_ids=np.flatnonzero(complete),
            instance_ids=scenes,
            labels=labels,
            label_names=names,
            factors=np.stack([labels, scenes, logs], axis=1),
            factor_names=("category", "instance", "log"),
            split_state=held_out if by_token else nothing,
            split_instance=nothing if by_token else held_out,
            overlap=0.0,
            num_dropped=int((~complete).sum()),
            domain=CONDITIONS[0] if CONDITIONS[0] in names else "",
            facts=facts,
        )

    def _held_out(self, frames: KeyFrames) -> np.ndarray:
        """Draws what is held out: i32[N], 1 for samples of a held-out group."""
        of_sample = {"scene": frames.scene_token, "log": frames.log, "token": frames.token}
        groups = _numbers(of_sample[self.split_by])
        total = int(groups.max()) + 1
        of = f"{total} {self.split_by}s"
        drawn = self.splits.draw(total, 2, of, "splits.test_states")
        return np.isin(groups, drawn).astype(np.int32)

    def _facts(self, frames: KeyFrames, rows: list[int], lacking: np.ndarray) -> dict[str, str]:
        """Returns what a reader must know: heading -> text."""
        times = frames.timestamps[rows]
        offsets = "; ".join(
            f"{name} {_milliseconds(late - times[0])}"
            for name, late in zip(self.cameras[1:], times[1:])
        )
        facts = {
            "Timestamps": f"The cameras of a sample fire one after the other. After "
            f"{self.cameras[0]}, mean (smallest to largest): {offsets}.",
            "Split": _split_text(self.split_by, frames),
            "Conditions": "By the words night and rain in a scene's description (after rain "
            "counts as rain); the tables have no such field.",
        }
        if self.fit == "centre":
            facts["Images"] = "The central part with the proportions of the input is read."
        if len(lacking):
            few = ", ".join(lacking[:_SHOWN]) + (", ..." if len(lacking) > _SHOWN else "")
            facts["Samples without a camera"] = f"{len(lacking)} are left out: {few}."
        return facts | _scene_lists(frames)


def _numbers(names: np.ndarray) -> np.ndarray:
    """Numbers the distinct names in their order of appearance: i32[N]."""
    _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)].astype(np.int32)


def _conditions(frames: KeyFrames) -> list[str]:
    return [tables.condition(text) for text in frames.description.tolist()]


def _milliseconds(late_N: np.ndarray) -> str:
    mean, low, high = (value / 1000 for value in (late_N.mean(), late_N.min(), late_N.max()))
    return f"{mean:+.1f} ms ({low:+.1f} to {high:+.1f})"


def _split_text(split_by: str, frames: KeyFrames) -> str:
    if split_by == "token":
        return (
            "By sample, as in the paper: LEAKS, since the samples half a second before and after a "
            "held-out one were trained on. split_by=scene or log does not."
        )
    scenes, logs = len(set(frames.scene_token.tolist())), len(set(frames.log.tolist()))
    also = " Other scenes of a held-out scene's drive may be trained on." * (split_by == "scene")
    return (
        f"By {split_by}: {scenes} scenes of {logs} logs.{also} Where this page says objects, these "
        f"are {split_by}s."
    )


def _scene_lists(frames: KeyFrames) -> dict[str, str]:
    """Lists the scenes of every condition, by name."""
    first = np.unique(frames.scene_token, return_index=True)[1]
    scenes = frames.select(np.isin(np.arange(len(frames.token)), first))
    of_scene = list(zip(_conditions(scenes), scenes.scene.tolist(), scenes.description.tolist()))
    lists = {}
    for wanted in CONDITIONS:
        names = [
            name + " (after rain)" * ("after rain" in text.lower())
            for found, name, text in of_scene
            if found == wanted
        ]
        if names:
            lists[f"Scenes: {wanted} ({len(names)})"] = ", ".join(names)
    return lists
