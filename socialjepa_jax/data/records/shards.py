"""Dataset of records in ArrayRecord, Parquet or tar files, told apart by the names of the files."""

import dataclasses
import fnmatch
import os
import pathlib
import re

from socialjepa_jax.data.records import array_records, parquet, tars
from socialjepa_jax.data.records.blobs import Blobs
from socialjepa_jax.data.records.index import Index, Names, complete
from socialjepa_jax.data.records.reading import RecordData
from socialjepa_jax.errors import InputError, check_one_of, expand_user

_FORMAT = re.compile(r"\.(array_record|parquet|tar)(-\d+-of-\d+)?$")


@dataclasses.dataclass(frozen=True)
class ShardsData(RecordData):
    """Dataset of records in files of one format.

    .array_record: records are `tf.train.Example` messages with the features of `names`.
    .parquet: rows with the columns of `names`; images are bytes, or a struct with a member "bytes",
        as the Hugging Face hub stores them. The names of the categories are read where they are.
    .tar: a category is an inner tar (ImageNet's ILSVRC2012_img_train.tar) or a folder in the tar.
        Where there are neither (ILSVRC2012_img_val.tar), `labels` names a file.

    Attributes:
        kind: "shards".
        files: pattern of the names of the files in `path`, such as "train-*"; files of none of the
            formats are left out.
        names: of features or columns.
        labels: text file in `path` with the category of every image of tar files, one a line, in
            the order of the images' names. "": see above.
    """

    kind: str = "shards"
    files: str = "*"
    names: Names = Names()
    labels: str = ""

    def __post_init__(self) -> None:
        check_one_of(("shards",), kind=self.kind)
        super().__post_init__()

    def _open(self, folder: pathlib.Path, cache: pathlib.Path) -> tuple[Blobs, Index]:
        paths, form = self._paths(folder)
        if form == "parquet":
            return parquet.scan(paths, self.names)
        if form == "tar":
            labels = folder / expand_user(self.labels, "labels") if self.labels else None
            return tars.scan(paths, labels, cache)
        return array_records.scan(paths, self.names, cache)

    def _paths(self, folder: pathlib.Path) -> tuple[list[str], str]:
        """Returns the files and their format."""
        try:
            entries = sorted(os.listdir(folder))
        except OSError as error:
            raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
        found = {
            name: part[1]
            for name in fnmatch.filter(entries, self.files)
            if (part := _FORMAT.search(name)) and not name.startswith(".")
        }
        if not found:
            raise InputError(
                f"{folder}: no .array_record, .parquet or .tar file fits files={self.files!r}"
            )
        if len(set(found.values())) > 1:
            forms = " and ".join(sorted(set(found.values())))
            raise InputError(f"{folder}: files={self.files!r} fits {forms} files")
        complete(folder, tuple(found))
        return [str(folder.resolve() / name) for name in found], next(iter(found.values()))
