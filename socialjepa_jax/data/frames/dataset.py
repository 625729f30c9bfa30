"""Synchronised cameras as a view dataset: a state is a moment, its views are the cameras' frames.

Shape key: K cameras, T moments, N states, L state dimensions.
"""

import dataclasses
import pathlib

import numpy as np
from absl import logging

from socialjepa_jax.data import base
from socialjepa_jax.data.files import FITS, Files, check_reading
from socialjepa_jax.data.frames import feed
from socialjepa_jax.data.frames.listing import Moments, list_moments, read_states
from socialjepa_jax.data.protocols import ImageFeed, Opening
from socialjepa_jax.errors import (
    ImageSize,
    InputError,
    check_non_negative,
    check_one_of,
    check_positive,
    expand_user,
)

MATCHES = ("name", "order")


@dataclasses.dataclass(frozen=True)
class FramesData:
    """One recording of several cameras: a folder of frames in time order for each of them.

    Training draws pairs (t, t + delta): 'image' and 'next' of a batch. Blocks of time are held out
    whole, since neighbours in time are next to equal.

    Attributes:
        kind: "frames".
        path: folder that holds the cameras' folders.
        cameras: names of these folders.
        match: "name": frames of one moment have the same name | "order": the n-th frames belong
            together, as where names are each camera's own timestamps.
        table: CSV file in the folder with a column "frame" (names without suffix) and those of
            `states`; "": no states are known.
        states: columns of continuous states, which agents are never told.
        image_size: side, or (height, width), that frames are resized to, pixels.
        channels: 1 (luma) or 3.
        fit: "stretch" | "centre": the central part with the proportions of `image_size`.
        delta: moments from a frame to its successor.
        transition: what the two images of a pair have in common: "motion" | "strangers": two
            moments that have nothing to do with each other | "stills": one frame, augmented twice.
        block: moments of a block of time.
        margin: moments on either side of a held-out block that are left out.
        splits: `test_states` is the share of blocks that is held out.
        read, workers, max_broken: see `FolderData`.
    """

    kind: str = "frames"
    path: str = ""
    cameras: tuple[str, ...] = ("left", "center", "right")
    match: str = "name"
    table: str = ""
    states: tuple[str, ...] = ()
    image_size: ImageSize = (32, 64)
    channels: int = 3
    fit: str = "stretch"
    delta: int = 1
    transition: str = "motion"
    block: int = 100
    margin: int = 10
    splits: base.Splits = base.Splits(test_instances=0, test_states=0.3)
    read: str = "stream"
    workers: int = 2
    max_broken: float = 0.01

    def __post_init__(self) -> None:
        check_one_of(("frames",), kind=self.kind)
        if not self.cameras or len(set(self.cameras)) < len(self.cameras):
            raise InputError(f"cameras={self.cameras} must be one or more distinct folders")
        for camera in self.cameras:
            if pathlib.PurePath(camera).name != camera or camera in ("", "..", "."):
                raise InputError(f"cameras={camera!r} must be the name of a folder")
        check_one_of(MATCHES, match=self.match)
        check_one_of(FITS, fit=self.fit)
        check_one_of(tuple(feed.TRANSITIONS), transition=self.transition)
        check_reading(self.image_size, self.channels, self.read, self.workers, self.max_broken)
        check_positive(delta=self.delta, block=self.block)
        check_non_negative(margin=self.margin)
        if bool(self.table) != bool(self.states) or len(set(self.states)) < len(self.states):
            raise InputError(
                f"table={self.table!r} and states={self.states} must both be given, the states "
                "distinct, or neither"
            )
        if self.splits.test_instances:
            raise InputError(
                f"splits.test_instances={self.splits.test_instances} must be 0: test_states is "
                "the share of blocks of time that is held out"
            )

    @property
    def num_cameras(self) -> int:
        """K."""
        return len(self.cameras)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Lists the frames, and reads them if `read` is "resident".

        Moments that lack a camera or a row of the table, and those beside a held-out block, are
        dropped and counted.

        Args:
            cache_dir: unused.

        Returns:
            The view dataset; its images are `Files` if `read` is "stream", its `state_ids` the
            numbers of the moments.

        Raises:
            InputError: a folder, the table or a file is missing or not as described.
        """
        del cache_dir
        folder = pathlib.Path(expand_user(self.path, "path"))
        if not self.path or not folder.is_dir():
            raise InputError(f"path={self.path!r}: no such folder")
        moments = list_moments(folder, self.cameras, self.match)
        count = len(moments.names)
        states, strangers = np.zeros((count, 0)), 0
        if self.table:
            table = folder / expand_user(self.table, "table")
            states, strangers = read_states(table, moments.names, self.states)
        seen = np.all(moments.files != "", axis=0)
        known = np.all(np.isfinite(states), axis=1)
        held_out, beside = self._held_out(count)
        keep = seen & known & ~beside
        if not keep.any():
            raise InputError(f"{folder}: no moment has a frame of every camera and its states")
        facts = self._facts(count, seen, known, keep, strangers, int(held_out[keep].sum()))
        for heading, text in facts.items():
            logging.info("%s: %s", heading, text)
        images = self._files(folder, moments, keep)
        zeros = np.zeros(int(keep.sum()), np.int32)
        return base.ViewDataset(
            name=folder.resolve().name,
            images=images if self.read == "stream" else np.asarray(images),
            state_ids=np.flatnonzero(keep),
            instance_ids=(np.flatnonzero(keep) // self.block).astype(np.int32),
            labels=zeros,
            label_names=("world",),
            factors=zeros[:, None],
            factor_names=("category",),
            split_state=held_out[keep].astype(np.int32),
            split_instance=zeros,
            overlap=0.0,
            num_dropped=int((~keep).sum()),
            states=states[keep].astype(np.float32) if self.states else None,
            state_names=self.states,
            facts=tuple(facts.items()),
        )

    def _files(self, folder: pathlib.Path, moments: Moments, keep: np.ndarray) -> Files:
        names = moments.files[:, keep]
        return Files(
            folder.resolve(),
            tuple(names.ravel().tolist()),
            np.arange(names.size).reshape(names.shape),
            self.image_size,
            self.channels,
            broken_is_black=self.read == "stream",
            fit=self.fit,
        )

    def _held_out(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws the held-out moments bool[T], and those that are left out beside them."""
        blocks = np.arange(count) // self.block
        total = int(blocks.max()) + 1
        of = f"{total} blocks of {self.block} of {count} moments"
        held_out = np.isin(blocks, self.splits.draw(total, 3, of, "splits.test_states"))
        near = np.convolve(held_out, np.ones(2 * self.margin + 1), "same") > 0
        return held_out, near & ~held_out

    def _facts(
        self,
        count: int,
        seen: np.ndarray,
        known: np.ndarray,
        keep: np.ndarray,
        strangers: int,
        num_test: int,
    ) -> dict[str, str]:
        """Returns what a reader must know: heading -> text."""
        beside = int((seen & known & ~keep).sum())
        facts = {
            "Split": f"Blocks of {self.block} moments are held out whole, {num_test} moments; "
            f"{beside} moments within {self.margin} of them are left out.",
            "Pairs": f"Training draws pairs of frames: {feed.TRANSITIONS[self.transition]}".replace(
                "delta", str(self.delta)
            ),
            "Agents": "All cameras saw the same drive: agents share moments, but no image.",
        }
        if self.fit == "centre":
            facts["Images"] = "The central part with the proportions of the input is read."
        if not seen.all():
            facts["Moments without a camera"] = f"{int((~seen).sum())} of {count} are left out."
        if not known.all():
            lost = int((seen & ~known).sum())
            facts["Moments without states"] = f"{lost} of {count} are left out."
        if strangers:
            facts["Rows without a frame"] = f"{strangers} of {self.table} are left out."
        return facts

    def film(self, frames: int = 40) -> base.Film:
        """Reads successive moments of the middle of the recording, for the page of a run.

        Args:
            frames: T.
        """
        still = dataclasses.replace(self, read="stream").load(pathlib.Path())
        middle = still.num_states // 2
        rows = np.arange(max(0, middle - frames // 2), min(still.num_states, middle + frames // 2))
        images = np.asarray(still.images[:, rows])
        states = np.zeros((len(rows), 0)) if still.states is None else still.states[rows]
        return base.Film(images, states, images)

    def open_feed(self, dataset: base.ViewDataset, opening: Opening) -> ImageFeed:
        """Opens a stream of pairs of files, or puts all frames on the devices."""
        return feed.open_pairs(
            dataset, opening, self.delta, self.transition, self.workers, self.max_broken
        )
