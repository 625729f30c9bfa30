"""The fixture's run on image files, and the batches that processes read of them."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib

import numpy as np
from PIL import Image

from experiments.reliability import runs
from socialjepa_jax.build import build, train_rows
from socialjepa_jax.config import Experiment
from socialjepa_jax.data import order
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.indexed import Calls
from socialjepa_jax.data.prefetch import Prefetcher

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


def calls(experiment: Experiment) -> Calls:
    """Returns the batches of all steps of a run, as one process reads them."""
    dataset = experiment.data.load(pathlib.Path())
    rows = train_rows(experiment, dataset)
    run, num_agents = experiment.run, len(experiment.agents.seeds)
    epochs = run.steps // (len(rows) // run.batch_size) + 1
    keys = np.asarray(order.epoch_keys(build(experiment).hparams["seed"], epochs))
    return Calls(
        dataset.images,
        experiment.agents.cameras,
        rows,
        keys,
        np.zeros(num_agents, np.int64),
        run.batch_size,
        run.steps_per_call,
        agents=(0, num_agents),
        slots=(0, run.batch_size),
    )


def batch_digests(calls: Calls, first: int, processes: int, workers: int, count: int) -> list[str]:
    """SHA-256 of the global batches of `count` calls, read in parts by as many feeds as processes.

    Args:
        calls: the batches of all steps.
        first: number of the first call.
        processes: into whose parts each batch is divided.
        workers: of each feed.
        count: number of calls.
    """
    size = calls.batch_size // processes
    parts = [dataclasses.replace(calls, slots=(size * p, size * (p + 1))) for p in range(processes)]
    with contextlib.ExitStack() as stack:
        feeds = [
            stack.enter_context(contextlib.closing(Prefetcher(part, first, workers)))
            for part in parts
        ]
        digests = []
        for _ in range(count):
            elements = [feed.take() for feed in feeds]
            digest = hashlib.sha256()
            for name in ("rows", "images"):
                whole = np.concatenate([element[name] for element in elements], axis=2)
                digest.update(np.ascontiguousarray(whole))
            digests.append(digest.hexdigest())
    return digests


def damage(folder: pathlib.Path, numbers: list[int]) -> None:
    """Cuts image files short."""
    for number in numbers:
        os.truncate(folder / f"{number}.png", 40)
