"""Photograph-like images in the layouts that data sets read: class folders and records."""

import io
import json
import pathlib
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from array_record.python import array_record_module
from PIL import Image

SIDES = ((375, 500), (500, 375), (333, 500), (400, 400), (300, 450))  # as of ImageNet's images
CATEGORIES = ("n01", "n02")
Picture = tuple[str, bytes, int]  # name, encoded image, label


def photographs(count: int, seed: int = 0) -> list[Picture]:
    """Makes JPEG files of 70-130 kB with the spectrum of photographs, amplitudes of 1 / f."""
    rng, found = np.random.default_rng(seed), []
    for number in range(count):
        height, width = SIDES[number % len(SIDES)]
        f = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
        f[0, 0] = np.inf
        noise = rng.normal(size=(2, *f.shape, 3)) / f[None, :, :, None]
        image = np.fft.irfft2(noise[0] + 1j * noise[1], (height, width), axes=(0, 1))
        image = 128 + 50 * (image.mean(axis=2, keepdims=True) + 0.3 * image) / image.std()
        stream = io.BytesIO()
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=93)
        label = number % len(CATEGORIES)
        found.append((f"{CATEGORIES[label]}_{number}.JPEG", stream.getvalue(), label))
    return found


def write_folder(folder: pathlib.Path, given: list[Picture]) -> None:
    """Writes class folders."""
    for name, blob, label in given:
        place = folder / CATEGORIES[label]
        place.mkdir(exist_ok=True)
        (place / name).write_bytes(blob)


def example(features: dict[str, bytes | int]) -> bytes:
    """Encodes a `tf.train.Example` of one value a feature, by the definition of the wire format."""

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


def write_array_records(path: pathlib.Path, given: list[Picture]) -> None:
    """Writes an ArrayRecord file that reads one record at a time."""
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
    for name, blob, label in given:
        writer.write(example({"image": blob, "label": label, "file_name": name.encode()}))
    writer.close()


def write_parquet(
    path: pathlib.Path, given: list[Picture], categories: tuple[str, ...], group: int
) -> None:
    """Writes the columns, row groups and metadata of the library `datasets`.

    Args:
        path: of the file.
        given: the images.
        categories: their names.
        group: rows of a row group; the library writes 100.
    """
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    features = {"image": {"_type": "Image"}, "label": {"names": categories, "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([("image", image), ("label", pa.int64())], metadata)
    images = [{"bytes": blob, "path": name} for name, blob, _ in given]
    table = pa.table([images, [label for *_, label in given]], schema=schema)
    pq.write_table(table, path, row_group_size=group)


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Adds a member to a tar file."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def write_tar(path: pathlib.Path, given: list[Picture], categories: tuple[str, ...]) -> None:
    """Writes a tar of a tar for each category, as ImageNet's training set is published."""
    with tarfile.open(path, "w") as outer:
        for label, category in enumerate(categories):
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w") as inner:
                for name, blob, own in given:
                    if own == label:
                        add(inner, name, blob)
            add(outer, f"{category}.tar", stream.getvalue())
