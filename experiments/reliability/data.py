"""The fixture's run on image files, and the batches that processes read of them."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from experiments.reliability import runs
from socialjepa_jax.build import build, train_rows
from socialjepa_jax.config import Experiment
from socialjepa_jax.data import order
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.frames import FramesData, feed
from socialjepa_jax.data.indexed import Calls
from socialjepa_jax.data.prefetch import Element, Prefetcher
from socialjepa_jax.data.records.viewed import Views

STEPS, STEPS_PER_CALL = 48, 2


def write_files(folder: pathlib.Path) -> pathlib.Path:
    """Writes the noise of `runs.write_pictures` as PNG files with a table of their factors."""
    folder.mkdir(exist_ok=True)
    with np.load(runs.write_pictures(folder)) as arrays:
        columns = dict(arrays)
    images = columns.pop("images")
    lines = [",".join(("file", *columns))]
    for number, (image, *values) in enumerate(zip(images, *columns.values())):
        Image.fromarray(image).save(folder / f"{number}.png")
        lines.append(",".join(map(str, (f"{number}.png", *values))))
    (folder / "factors.csv").write_text("\n".join(lines))
    return folder


def experiment(folder: pathlib.Path, **changes: object) -> Experiment:
    """Returns the fixture's run on the files of `write_files`; `changes` are of its data."""
    run = runs.experiment(folder / "noise.npz", STEPS)
    shared = ("columns", "image_size", "channels", "protocol", "splits")
    fields = {name: getattr(run.data, name) for name in shared} | {"read": "stream"} | changes
    return dataclasses.replace(
        run,
        data=FolderData(path=str(folder), table="factors.csv", **fields),
        run=dataclasses.replace(run.run, steps_per_call=STEPS_PER_CALL, log_every=STEPS_PER_CALL),
    )


def calls(experiment: Experiment, cache: pathlib.Path = pathlib.Path()) -> Calls:
    """Returns the batches of all steps of a run, as one process reads them.

    Args:
        experiment: the run; where two cameras see one picture, what is read is the picture.
        cache: folder of the index of records.
    """
    data: Any = experiment.data
    dataset = data.load(cache)
    files: Any = dataset.images
    rows, cameras = train_rows(experiment, dataset), experiment.agents.cameras
    if isinstance(files, Views):
        files, cameras = files.pictures[:1], (0,) * len(cameras)
    if isinstance(data, FramesData):
        pairs = feed.pairs_of(dataset.state_ids, rows, data.delta, data.transition)
        files, rows = feed.paired_files(files, pairs), pairs.rows
    run, num_agents = experiment.run, len(experiment.agents.seeds)
    keys = order.epoch_keys(build(experiment).hparams["seed"], run.steps)  # epochs, at most
    return Calls(
        files,
        cameras,
        rows,
        np.asarray(keys),
        np.zeros(num_agents, np.int64),
        run.batch_size,
        run.steps_per_call,
        agents=(0, num_agents),
        slots=(0, run.batch_size),
    )


def parts(calls: Calls, processes: int) -> list[Calls]:
    """Divides the batches of all agents over processes."""
    size = calls.batch_size // processes
    return [dataclasses.replace(calls, slots=(size * p, size * (p + 1))) for p in range(processes)]


def batch_digests(parts: Sequence[Calls], first: int, workers: int, count: int) -> list[str]:
    """SHA-256 of the global batches of `count` calls, each part read by a feed of its own.

    Args:
        parts: of the batches, which hold every position of every agent between them.
        first: number of the first call.
        workers: of each feed.
        count: number of calls.
    """
    with contextlib.ExitStack() as stack:
        feeds = [
            stack.enter_context(contextlib.closing(Prefetcher(part, first, workers)))
            for part in parts
        ]
        return [_digest(parts, [feed.take() for feed in feeds]) for _ in range(count)]


def _digest(parts: Sequence[Calls], elements: Sequence[Element]) -> str:
    """SHA-256 of the batches of a call, put together from their parts."""
    agents, slots = max(part.agents[1] for part in parts), max(part.slots[1] for part in parts)
    digest = hashlib.sha256()
    for name in ("rows", "images"):
        _, steps, _, *rest = elements[0][name].shape
        whole = np.zeros((agents, steps, slots, *rest), elements[0][name].dtype)
        for part, element in zip(parts, elements):
            whole[slice(*part.agents), :, slice(*part.slots)] = element[name]
        digest.update(whole)
    return digest.hexdigest()


def damage(folder: pathlib.Path, numbers: list[int]) -> None:
    """Cuts image files short."""
    for number in numbers:
        os.truncate(folder / f"{number}.png", 40)
