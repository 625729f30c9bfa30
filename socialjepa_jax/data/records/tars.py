"""Tar files of images: ImageNet's two, whose inner tars are categories, or folders in a tar."""

import dataclasses
import functools
import os
import pathlib
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from socialjepa_jax.data.files import Blob
from socialjepa_jax.data.records import index
from socialjepa_jax.data.records.blobs import RecordNames, Shards
from socialjepa_jax.errors import InputError

_BLOCK = tarfile.BLOCKSIZE
SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclasses.dataclass(frozen=True, eq=False)
class TarMembers:
    """The images of tar files; see `blobs.Blobs`.

    Attributes:
        shards: the files.
        offsets: i64[M], place of every image in its file.
        sizes: i64[M], its bytes.
    """

    shards: Shards
    offsets: np.ndarray
    sizes: np.ndarray

    def read(self, numbers: Sequence[int]) -> list[Blob]:
        """Reads the images of some members; what is wrong with one stands in its place."""
        firsts = dict(zip(self.shards.paths, np.cumsum((0, *self.shards.counts))))

        def of_file(path: str, positions: np.ndarray) -> list[Blob]:
            return [self._one(path, int(firsts[path] + position)) for position in positions]

        return self.shards.read(numbers, of_file)

    def _one(self, path: str, number: int) -> Blob:
        try:
            with open(path, "rb", buffering=0) as file:
                blob = os.pread(file.fileno(), int(self.sizes[number]), int(self.offsets[number]))
        except OSError as error:
            return ValueError(f"cannot be read ({error.strerror})")
        return blob if len(blob) == self.sizes[number] else ValueError("ends within the image")


def scan(
    paths: Sequence[str], labels: pathlib.Path | None, cache: pathlib.Path
) -> tuple[TarMembers, index.Index]:
    """Lists the images of all files, or finds the lists in the cache.

    Args:
        paths: the files.
        labels: text file with the category of every image, one a line, by the images' names; None:
            inner tars or folders are categories.
        cache: folder of the caches.

    Raises:
        InputError: a file is damaged, or a member is no image or in no category.
    """
    lists = []
    for path in paths:
        key = Shards((path,), (0,)).stamp()
        lists.append(index.cached(cache, key, functools.partial(_list, path)))
    columns = {name: np.concatenate([found[name] for found in lists]) for name in lists[0]}
    shards = Shards(tuple(paths), tuple(len(found["names"]) for found in lists))
    categories, names = columns["categories"], columns["names"]
    if labels is not None:
        categories = np.empty(len(names), object)
        categories[np.argsort(names, kind="stable")] = _lines(labels, len(names))
    elif not all(categories):
        first = RecordNames(shards)[int(np.argmax(categories == ""))]
        raise InputError(f"{first}: is in no inner tar and no folder; name a file with data.labels")
    label_names, numbers = np.unique(categories.astype(str), return_inverse=True)
    ids = [f"{category}/{name}" for category, name in zip(columns["categories"], names)]
    found = index.Index(shards, numbers, tuple(label_names.tolist()), ids)
    return TarMembers(shards, columns["offsets"], columns["sizes"]), found


def _lines(path: pathlib.Path, count: int) -> list[str]:
    try:
        lines = path.read_text().split()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if len(lines) != count:
        raise InputError(f"{path}: has {len(lines)} labels for {count} images")
    return lines


def _list(path: str) -> dict[str, np.ndarray]:
    """Lists the images of a file.

    Returns:
        'names' U[M], 'categories' U[M] (empty where a member is in no folder or inner tar),
        'offsets' i64[M], 'sizes' i64[M].
    """
    try:
        with tarfile.open(path, "r:") as tar:
            found = list(_members(tar, path, "", 0))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"{path}: is truncated or no plain tar file ({error})") from None
    if not found:
        raise InputError(f"{path}: there are no images in it")
    names, categories, offsets, sizes = zip(*found)
    return {
        "names": np.array(names),
        "categories": np.array(categories),
        "offsets": np.array(offsets, np.int64),
        "sizes": np.array(sizes, np.int64),
    }


def _members(
    tar: tarfile.TarFile, path: str, category: str, start: int
) -> Iterator[tuple[str, str, int, int]]:
    """Yields (name, category, offset, size) of every image, those of inner tars too."""
    end = 0
    for member in tar:
        end = member.offset_data + -(-member.size // _BLOCK) * _BLOCK
        place = pathlib.PurePath(member.name)
        if member.isdir() or place.name.startswith("."):
            continue
        if not member.isfile() or member.issparse():
            raise InputError(f"{path}: {member.name} is no plain file")
        if place.suffix == ".tar" and not category:
            inside = tarfile.open(fileobj=tar.extractfile(member), mode="r:")
            yield from _members(inside, path, place.stem, start + member.offset_data)
        elif place.suffix.lower() in SUFFIXES:
            own = category or place.parent.name
            yield place.name, own, start + member.offset_data, member.size
        else:
            raise InputError(f"{path}: {member.name} is no {', '.join(SUFFIXES)} file")
    file: Any = tar.fileobj
    file.seek(end)
    if file.read(_BLOCK) != bytes(_BLOCK):  # what is cut between two members looks whole otherwise
        raise tarfile.ReadError("no end mark")
