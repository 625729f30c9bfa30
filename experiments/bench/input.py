"""Input of images: images/s against workers for folders and records, beside PyTorch's DataLoader.

All read the same JPEG files (of ImageNet's sizes, in the page cache), decode them and resize them
to 224 x 224, in shuffled batches of uint8 that arrive in the main process. PyTorch's are
`ImageFolder` with torchvision's `Resize` and `PILToTensor`; beside it with `ToTensor`, the float32
of its examples (`pip install socialjepa_jax[bench]` and torchvision; optional). Rates are per
second, and per second of CPU time of the process and its workers, which other work on the machine
changes less; what starting costs is left out. The least CPU time of some repeats counts, in turns.
From the rate of ArrayRecord follow the cores that feed an H100 at the scaling model's rate.

Command: python -m experiments.bench_input [--workers=0,1,2] [--repeats=3] [--out=FILE.json]
Cost: 5 minutes of two cores; 40 CPU seconds for `--workers=0 --repeats=2`.
Expected, without workers: 253 to 324 images per CPU second, 1.06 to 1.35 of DataLoader's uint8
(target 1.2, met in 4 of 12 cases with 0, 1 and 2 workers: both decode with libjpeg-turbo); Parquet
one row at a time 84.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import math
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import flags

from configs import imagenet_ijepa, imagenet_lejepa
from experiments.bench import input_files, results, run_cost
from experiments.bench.results import Result
from socialjepa_jax.config import from_config_dict
from socialjepa_jax.data import FolderData, ShardsData
from socialjepa_jax.data.indexed import Calls
from socialjepa_jax.data.order import epoch_keys
from socialjepa_jax.data.prefetch import Prefetcher
from socialjepa_jax.data.records.reading import ONE_CAMERA
from socialjepa_jax.errors import InputError, check_positive

SIZE = 224
TARGET = 1.2  # images per CPU second, over PyTorch's
OURS = ("folder", "array_record", "parquet", "tar")
TORCH = ("DataLoader, uint8", "DataLoader, float32")
FED = {"ViT-S/16 by I-JEPA": imagenet_ijepa, "ViT-S/16 by LeJEPA": imagenet_lejepa}
_WARM = 4  # batches before the clock starts
Batches = Callable[[], contextlib.AbstractContextManager[Callable[[], Any]]]


@dataclasses.dataclass(frozen=True)
class Load:
    """What is read.

    Attributes:
        pictures: number of files.
        batch: images of a batch.
        batches: that are measured.
        repeats: of which the one of least CPU time counts.
    """

    pictures: int = 100
    batch: int = 32
    batches: int = 8
    repeats: int = 3


REHEARSAL = Load(pictures=20, batch=4, batches=3, repeats=1)


def write(folder: pathlib.Path, load: Load) -> dict[str, Any]:
    """Writes the files in all layouts; returns the data sets."""
    given = input_files.photographs(load.pictures)
    places = {name: folder / name for name in OURS}
    for place in places.values():
        place.mkdir()
    input_files.write_folder(places["folder"], given)
    input_files.write_array_records(places["array_record"] / "a.array_record", given)
    categories = input_files.CATEGORIES
    input_files.write_parquet(places["parquet"] / "a.parquet", given, categories, 100)
    input_files.write_tar(places["tar"] / "a.tar", given, categories)
    records = {name: ShardsData(path=str(places[name]), image_size=SIZE) for name in OURS[1:]}
    files = FolderData(
        path=str(places["folder"]), image_size=SIZE, protocol=ONE_CAMERA, read="stream"
    )
    return {"folder": files} | records


def ours(data: Any, workers: int, load: Load, cache: pathlib.Path) -> Batches:
    """Batches of a data set, read ahead as a run does; no device takes them."""
    images = data.load(cache).images
    keys = np.asarray(epoch_keys(np.zeros(1, np.uint32), 100))
    calls = Calls(
        images, (0,), np.arange(images.shape[1]), keys, np.zeros(1, np.int64), load.batch, 1,
        agents=(0, 1), slots=(0, load.batch),
    )  # fmt: skip

    @contextlib.contextmanager
    def opened() -> Iterator[Callable[[], Any]]:
        with contextlib.closing(Prefetcher(calls, 0, workers)) as feed:
            yield feed.take

    return opened


def dataloader(folder: pathlib.Path, workers: int, load: Load, name: str) -> Batches:
    """Batches of PyTorch's DataLoader."""
    import torch
    import torchvision
    from torchvision import transforms

    torch.set_num_threads(1)
    last = transforms.PILToTensor() if name == TORCH[0] else transforms.ToTensor()
    change = transforms.Compose([transforms.Resize((SIZE, SIZE)), last])
    files = torchvision.datasets.ImageFolder(str(folder), change)

    @contextlib.contextmanager
    def opened() -> Iterator[Callable[[], Any]]:
        sampler = torch.utils.data.RandomSampler(files, num_samples=load.batch * 1000)
        loader = torch.utils.data.DataLoader(
            files, load.batch, sampler=sampler, num_workers=workers, drop_last=True,
            multiprocessing_context="spawn" if workers else None,  # a fork of JAX may hang
        )  # fmt: skip
        batches = iter(loader)
        yield functools.partial(next, batches)

    return opened


def cpu_seconds() -> float:
    """CPU time of this process and of all processes that it started and that are alive.

    Raises:
        InputError: this is no Linux machine, whose /proc says so.
    """
    ticks, found, open_ids = 0, set(), ["self"]
    try:
        while open_ids:
            folder = pathlib.Path("/proc") / open_ids.pop()
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                children = [p.read_text().split() for p in (folder / "task").glob("*/children")]
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            ticks += int(fields[11]) + int(fields[12])
            fresh = {number for numbers in children for number in numbers} - found
            found |= fresh
            open_ids += sorted(fresh)
    except OSError as error:
        raise InputError(f"CPU times are read in /proc, which is not here ({error})") from None
    if not ticks:
        raise InputError("CPU times are read in /proc, which only Linux has")
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(batches: Batches, load: Load) -> tuple[float, float]:
    """Returns (CPU seconds, seconds) of an image."""
    with batches() as take:
        for _ in range(_WARM):
            take()
        cpu, start = cpu_seconds(), time.perf_counter()
        for _ in range(load.batches):
            take()
        wall, used = time.perf_counter() - start, cpu_seconds() - cpu
    count = load.batches * load.batch
    return used / count, wall / count


def alone(data: Any, count: int, cache: pathlib.Path) -> float:
    """CPU seconds of an image where no two of a batch lie together, as in sets of millions."""
    images = data.load(cache).images[0]
    rows = np.random.default_rng(0).permutation(len(images))[:count]
    images[rows[:1]].read()
    start = time.process_time()
    for row in rows:
        images[[row]].read()
    return (time.process_time() - start) / len(rows)


def run(workers: tuple[int, ...], load: Load, folder: pathlib.Path) -> list[Result]:
    """Measures all readers with every number of workers."""
    data, rows = write(folder, load), []
    for name in ("parquet", "array_record"):
        rate = 1 / alone(data[name], load.batch, folder / "cache")
        rows.append(Result(f"{name}, one record at a time", rate, note="images per CPU second"))
    has_torch = importlib.util.find_spec("torchvision") is not None
    for count in workers:
        readers = {name: ours(data[name], count, load, folder / "cache") for name in OURS}
        if has_torch:
            readers |= {n: dataloader(folder / "folder", count, load, n) for n in TORCH}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
        for _ in range(load.repeats):
            for name, batches in readers.items():
                found[name].append(measure(batches, load))
        least = {name: min(times) for name, times in found.items()}
        rows += [*_rows(least, count), *cores(1 / least["array_record"][0], count)]
    return rows


def cores(rate: float, workers: int) -> list[Result]:
    """Cores that feed an H100 at the scaling model's rate.

    Args:
        rate: images per CPU second of the reader.
        workers: with which it was measured, for the names.
    """
    rows = []
    for name, preset in FED.items():
        objective = from_config_dict(preset.get_config()).objective
        wanted = run_cost.images_per_second(objective, run_cost.ONE_H100.products)
        title, note = f"cores for {name}, {workers} workers", f"{wanted:,.0f} images/s"
        rows.append(Result(title, math.ceil(wanted / rate), note=note))
    return rows


def _rows(found: dict[str, tuple[float, float]], workers: int) -> list[Result]:
    """Returns the rows of one number of workers."""
    rows = []
    for name, (cpu, wall) in found.items():
        note = f"images per CPU second; {1 / wall:.0f} images/s"
        rows.append(Result(f"{name}, {workers} workers", 1 / cpu, note=note))
    for name in OURS if TORCH[0] in found else ():
        ratio = found[TORCH[0]][0] / found[name][0]
        note = f"{found[TORCH[1]][0] / found[name][0]:.2f} over float32"
        rows.append(
            Result(f"{name} / DataLoader, uint8, {workers} workers", ratio, TARGET, note=note)
        )
    return rows


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_list("workers", ["0", "1", "2"], "Numbers of processes that read.")
    flags.DEFINE_integer("repeats", Load().repeats, "Repeats, of which the least CPU time counts.")
    flags.DEFINE_bool("rehearse", False, "Few images: all runs, no figure means anything.")
    flags.DEFINE_string("out", None, "JSON file of the figures.")


def main() -> None:
    """Measures, prints and writes the figures."""
    given = flags.FLAGS
    check_positive(**{"--repeats": given.repeats})
    if not all(text.isdecimal() for text in given.workers):
        raise InputError(f"--workers={','.join(given.workers)} must be numbers")
    path = results.out_file(given.out)
    load = REHEARSAL if given.rehearse else dataclasses.replace(Load(), repeats=given.repeats)
    with tempfile.TemporaryDirectory() as folder:
        rows = run(tuple(map(int, given.workers)), load, pathlib.Path(folder))
    results.publish(rows, path)
