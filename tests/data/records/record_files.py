"""The same pictures in every format of records, as others write them."""

import io
import json
import pathlib
import tarfile
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from array_record.python import array_record_module

from socialjepa_jax.data.records.reading import RecordData
from socialjepa_jax.data.records.shards import ShardsData
from socialjepa_jax.data.records.tfds import TfdsData
from tests.data.image_folder import encoded, random_image

COUNT, SIZE = 24, 8
LABELS = np.random.default_rng(0).permutation(np.arange(COUNT) % 3)
NAMES = ("n01", "n02", "n03")  # of the categories
Picture = tuple[str, bytes, int]  # name, encoded image, label


def pictures(count: int = COUNT) -> list[Picture]:
    """Names as ImageNet's; every image is noise of its own, encoded without loss."""
    labels = [int(LABELS[n % COUNT]) for n in range(count)]
    return [
        (f"{NAMES[label]}_{n}.JPEG", encoded(random_image(n, SIZE)), label)
        for n, label in enumerate(labels)
    ]


def example(features: dict[str, bytes | int]) -> bytes:
    """A `tf.train.Example` of one value a feature, by the definition of the wire format."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(content)) + content

    def varint(value: int) -> bytes:
        low = [value >> 7 * place & 127 for place in range(max(1, -(-value.bit_length() // 7)))]
        return bytes([part | 128 for part in low[:-1]] + low[-1:])

    entries = b""
    for name, value in features.items():
        if isinstance(value, int):
            feature = field(3, field(1, varint(value % 2**64)))
        else:
            feature = field(1, field(1, value))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


def halves(pictures: list[Picture]) -> Iterable[tuple[str, list[Picture]]]:
    middle = len(pictures) // 2
    return (("00000-of-00002", pictures[:middle]), ("00001-of-00002", pictures[middle:]))


def write_array_records(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    for part, rows in halves(given):
        path = folder / f"train.array_record-{part}"
        writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
        for name, blob, label in rows:
            writer.write(example({"image": blob, "label": label, "file_name": name.encode()}))
        writer.close()
    return ShardsData(path=str(folder), image_size=SIZE)


def write_parquet(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    """The columns, row groups and metadata that the library `datasets` writes."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    features = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([("image", image), ("label", pa.int64())], metadata)
    for part, rows in halves(given):
        images = [{"bytes": blob, "path": name} for name, blob, _ in rows]
        table = pa.table([images, [label for *_, label in rows]], schema=schema)
        pq.write_table(table, folder / f"train-{part}.parquet", row_group_size=5)
    return ShardsData(path=str(folder), image_size=SIZE, files="train-*")


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def write_train_tar(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    with tarfile.open(folder / "ILSVRC2012_img_train.tar", "w") as outer:
        for label, category in enumerate(NAMES):
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w") as inner:
                for name, blob, own in given:
                    if own == label:
                        add(inner, name, blob)
            add(outer, f"{category}.tar", stream.getvalue())
    return ShardsData(path=str(folder), image_size=SIZE)


def write_val_tar(folder: pathlib.Path, given: list[Picture]) -> ShardsData:
    """The images of no category, and a file of the categories in the order of the names."""
    with tarfile.open(folder / "ILSVRC2012_img_val.tar", "w") as tar:
        for name, blob, _ in given:
            add(tar, name, blob)
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
