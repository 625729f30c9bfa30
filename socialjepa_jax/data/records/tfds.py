"""Dataset that tensorflow-datasets has prepared, read without TensorFlow.

tensorflow-datasets (`pip install 'socialjepa_jax[data]'`) finds and reads the records; images are
decoded here, as all others are. The dataset must lie in a format of random access: prepare it once
with `file_format="array_record"`, or convert it with `tfds convert_format`, on a machine that has
TensorFlow.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from socialjepa_jax.data.files import Blob
from socialjepa_jax.data.records import array_records
from socialjepa_jax.data.records import index as index_lib
from socialjepa_jax.data.records.blobs import Blobs, Shards
from socialjepa_jax.data.records.index import Index, Names
from socialjepa_jax.data.records.reading import RecordData
from socialjepa_jax.errors import InputError, check_one_of

_INFO = "dataset_info.json"  # in the folder of every prepared version
_DEPTH = 3  # folders below `path` that it is looked for in: name, configuration, version


@dataclasses.dataclass(frozen=True)
class TfdsData(RecordData):
    """Dataset of tensorflow-datasets with an image and a label.

    Attributes:
        kind: "tfds".
        path: its data_dir, or the folder of one prepared version.
        name: of the dataset, such as "imagenet2012" or "imagenet2012/5.1.0"; "": `path` holds one.
        split: such as "train".
        names: of the features; `id` is looked at where the dataset has it.
        download: if true, a dataset that is not there is downloaded and prepared, which needs
            TensorFlow for most datasets.
    """

    kind: str = "tfds"
    name: str = ""
    split: str = "train"
    names: Names = Names()
    download: bool = False

    def __post_init__(self) -> None:
        check_one_of(("tfds",), kind=self.kind)
        super().__post_init__()
        if self.download and not self.name:
            raise InputError("download=True needs the name of a dataset")

    def _open(self, folder: pathlib.Path, cache: pathlib.Path) -> tuple[Blobs, Index]:
        library = _library()
        if self.download:
            _prepare(library, folder, self.name)
        version = _version_folder(folder / self.name)
        info = library.builder_from_directory(version).info
        shards = _shards(info, self.split, version)
        label_names = _check_features(info.features, self.names, library, version)
        examples = TfdsExamples(shards, str(version), self.split, self.names)
        examples.check()
        key = hashlib.sha256(f"tfds {self.names} {shards.stamp()}".encode()).hexdigest()
        found = index_lib.cached(cache, key, lambda: index_lib.scan(len(shards), examples.rows))
        labels = found["labels"]
        label_names = label_names or tuple(map(str, range(labels.max(initial=0) + 1)))
        return examples, Index(shards, labels, label_names, found["ids"].tolist())


@dataclasses.dataclass(frozen=True, eq=False)
class TfdsExamples:
    """The images of a split; see `blobs.Blobs`.

    Attributes:
        shards: its files.
        folder: of the version.
        split: its name.
        names: of the features.
    """

    shards: Shards
    folder: str
    split: str
    names: Names

    def __reduce__(self) -> tuple[Any, ...]:  # what is open stays where it is
        return TfdsExamples, (self.shards, self.folder, self.split, self.names)

    @functools.cached_property
    def _source(self) -> Any:
        library = _library()
        skipped = {self.names.image: library.decode.SkipDecoding()}
        builder = library.builder_from_directory(self.folder)
        return builder.as_data_source(self.split, decoders=skipped)

    def check(self) -> None:
        """Opens the source.

        Raises:
            InputError: the format is not of random access.
        """
        try:
            found = len(self._source)
        except NotImplementedError:
            raise InputError(
                f"{self.folder}: is in no format of random access; convert it once, where "
                "TensorFlow is: tfds convert_format --out_file_format=array_record"
            ) from None
        if found != len(self.shards):
            raise InputError(f"{self.folder}: {found} records are not {len(self.shards)}")

    def read(self, numbers: Sequence[int]) -> list[Blob]:
        """Reads the images of some records; what is wrong with one stands in its place."""
        return [
            found if isinstance(found, ValueError) else bytes(found[self.names.image])
            for found in self._examples(numbers)
        ]

    def rows(self, numbers: Sequence[int]) -> list[index_lib.Row | ValueError]:
        """Reads labels and ids; an error stands in the place of a damaged record."""
        return [
            found if isinstance(found, ValueError) else self._row(found)
            for found in self._examples(numbers)
        ]

    def _row(self, features: dict[str, Any]) -> index_lib.Row:
        text = features.get(self.names.id, b"")
        return int(features[self.names.label]), (
            text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        )

    def _examples(self, numbers: Sequence[int]) -> list[Any]:
        try:
            return list(self._source.__getitems__(list(numbers)))
        except Exception:  # one damaged record fails all
            return [self._one(number) for number in numbers]

    def _one(self, number: int) -> Any:
        try:
            return self._source[number]
        except Exception as error:  # of several libraries
            return ValueError(f"cannot be read ({' '.join(str(error).split())})")


def _library() -> Any:
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise InputError(
            f"kind='tfds' needs tensorflow-datasets ({error}): pip install 'socialjepa_jax[data]'"
        ) from None
    return tensorflow_datasets


def _prepare(library: Any, folder: pathlib.Path, name: str) -> None:
    """Downloads and prepares a dataset unless it is there."""
    try:
        builder = library.builder(name, data_dir=folder, file_format="array_record")
        builder.download_and_prepare()
    except Exception as error:  # of the dataset's own code
        text = " ".join(str(error).split())
        raise InputError(f"name={name!r} cannot be prepared in {folder} ({text})") from error


def _version_folder(root: pathlib.Path) -> pathlib.Path:
    """Returns the folder of the prepared version in a folder, or the folder itself.

    Raises:
        InputError: there is none, or there are several.
    """
    found: list[pathlib.Path] = []
    for depth in range(_DEPTH + 1):
        found += [path.parent for path in sorted(root.glob("*/" * depth + _INFO))]
    if not found:
        raise InputError(
            f"{root}: holds no dataset that tensorflow-datasets has prepared (no {_INFO}); "
            "nothing is downloaded unless data.download=True"
        )
    if len(found) > 1:
        several = ", ".join(path.relative_to(root).as_posix() for path in found)
        raise InputError(f"{root}: holds {several}; name one with data.name")
    return found[0]


def _shards(info: Any, split: str, version: pathlib.Path) -> Shards:
    """Returns the files of a split.

    Raises:
        InputError: there is no such split, or a file of it is missing or damaged.
    """
    if split not in info.splits:
        raise InputError(f"{version}: no split {split!r}, it has {', '.join(info.splits)}")
    files = info.splits[split].file_instructions
    paths = tuple(os.fspath(file.filename) for file in files)
    shards = Shards(paths, tuple(file.examples_in_shard for file in files))
    shards.stamp()
    if str(info.file_format.file_suffix) == "array_record":
        for path, found, said in zip(paths, array_records.shards(paths).counts, shards.counts):
            if found != said:
                raise InputError(f"{path}: has {found} records, {_INFO} says {said}")
    return shards


def _check_features(
    features: Any, names: Names, library: Any, version: pathlib.Path
) -> tuple[str, ...]:
    """Checks that there are an image and a label; returns the names of the categories, if any.

    Raises:
        InputError: a feature is missing or of another type.
    """
    held = ", ".join(sorted(features))
    for name in (names.image, names.label):
        if name not in features:
            raise InputError(f"{version}: no feature {name!r}, it has {held}")
    if not isinstance(features[names.image], library.features.Image):
        raise InputError(f"{version}: feature {names.image!r} is no image")
    label = features[names.label]
    if label.shape != () or np.dtype(label.np_dtype).kind not in "iu":
        raise InputError(f"{version}: feature {names.label!r} is no integer")
    return tuple(getattr(label, "names", None) or ())
