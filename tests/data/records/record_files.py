"""The same pictures in every format of records, as others write them."""

import pathlib
import tarfile
from collections.abc import Callable, Iterable

import numpy as np

from experiments.bench import input_files
from experiments.bench.input_files import Picture
from socialjepa_jax.data.records.reading import RecordData
from socialjepa_jax.data.records.shards import ShardsData
from socialjepa_jax.data.records.tfds import TfdsData
from tests.data.image_folder import encoded, random_image

COUNT, SIZE = 24, 8
LABELS = np.random.default_rng(0).permutation(np.arange(COUNT) % 3)
NAMES = ("n01", "n02", "n03")  # of the categories


def pictures(count: int = COUNT) -> list[Picture]:
    """Names as ImageNet's; every image is noise of its own, encoded without loss."""
    labels = [int(LABELS[n % COUNT]) for n in range(count)]
    return [
        (f"{NAMES[label]}_{n}.JPEG", encoded(random_image(n, SIZE)), label)
        for n, label in enumerate(labels)
    ]


def halves(pictures: list[Picture]) -> Iterable[tuple[str, list[Picture]]]:
    middle = len(pictures) // 2
    return (("00000-of-00002", pictures[:middle]), ("00001-of-00002", pictures[middle:]))


def write_array_records(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    for part, rows in halves(given):
        path = folder / f"train.array_record-{part}"
        input_files.write_array_records(path, rows)
    return ShardsData(path=str(folder), image_size=SIZE)


def write_parquet(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    """The columns, row groups and metadata that the library `datasets` writes."""
    for part, rows in halves(given):
        input_files.write_parquet(folder / f"train-{part}.parquet", rows, NAMES, group=5)
    return ShardsData(path=str(folder), image_size=SIZE, files="train-*")


def write_train_tar(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    input_files.write_tar(folder / "ILSVRC2012_img_train.tar", given, NAMES)
    return ShardsData(path=str(folder), image_size=SIZE)


def write_val_tar(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    """The images of no category, and a file of the categories in the order of the names."""
    with tarfile.open(folder / "ILSVRC2012_img_val.tar", "w") as tar:
        for name, blob, _ in given:
            input_files.add(tar, name, blob)
    lines = [NAMES[label] for _, _, label in sorted(given)]
    (folder / "labels.txt").write_text("\n".join(lines))
    return ShardsData(path=str(folder), image_size=SIZE, labels="labels.txt")


def write_tfds(folder: pathlib.Path, given: list[Picture], form: str = "array_record") -> TfdsData:
    """What a builder of tensorflow-datasets prepares."""
    from tests.data.records import tiny_dataset

    tiny_dataset.prepare(folder, given, form)
    return TfdsData(path=str(folder), name="tiny", image_size=SIZE)


WRITERS: dict[str, Callable[[pathlib.Path, list[Picture]], RecordData]] = {
    "array_record": write_array_records,
    "parquet": write_parquet,
    "train tar": write_train_tar,
    "val tar": write_val_tar,
    "tfds": write_tfds,
}
