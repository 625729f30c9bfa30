"""Readers of data sets under generated content: they return what was written, or refuse it."""

import csv
import itertools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialjepa_jax.data import base, manifest
from socialjepa_jax.data.files import Files, printable
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.errors import InputError

FEW = settings(max_examples=25, deadline=None, derandomize=True, database=None)
# Names of files: bytes that need not be text.
NAMES = (
    st.binary(min_size=1, max_size=12)
    .filter(lambda name: not {b"/", b"\0"} & set(map(bytes, zip(name))) and name[:1] != b".")
    .map(lambda name: os.fsdecode(name) + ".png")
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@contextmanager
def folder() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as name:
        yield pathlib.Path(name)


def load(path: pathlib.Path, **fields) -> base.ViewDataset:
    splits = base.Splits(test_instances=0, test_states=0.5)
    one = base.Protocol(azimuths=(0,))
    data = FolderData(path=str(path), protocol=one, splits=splits, read="stream", **fields)
    return data.load(path)


@FEW
@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 2**31 - 1)), min_size=2, max_size=6))
def test_a_table_comes_back_as_it_was_written(rows):
    names = [f"{number}.png" for number in range(len(rows))]
    with folder() as path:
        with (path / "table.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["shot", "file", "category", "instance", "light", "azimuth"])
            for shot, (name, row) in enumerate(zip(names, rows)):
                (path / name).touch()
                writer.writerow([shot, name, *row, 0])
        factors = ("category", "instance", "azimuth", "light", "shot")
        data = load(path, table="table.csv", columns=tuple((name, name) for name in factors))
    assert isinstance(data.images, Files)
    shots = data.factor("shot").tolist()
    assert sorted(shots) == list(range(len(rows)))
    assert [data.images.names[place] for place in data.images.places[0]] == [
        names[shot] for shot in shots
    ]
    found = [data.label_names[label] for label in data.labels], data.factor("light").tolist()
    assert found == ([rows[shot][0] for shot in shots], [rows[shot][2] for shot in shots])
    objects = [rows[shot][1] for shot in shots]
    levels = data.factor("instance").tolist()
    for one, other in itertools.combinations(range(len(rows)), 2):
        assert (objects[one] == objects[other]) == (levels[one] == levels[other])


@FEW
@given(st.binary() | TEXTS.map(lambda text: f"file,category,instance,azimuth\n{text}".encode()))
def test_any_table_is_read_or_refused(content):
    with folder() as path:
        (path / "table.csv").write_bytes(content)
        with pytest.raises(InputError, match=r"table\.csv|path: |no such file|is not in|broken"):
            load(path, table="table.csv")


@FEW
@given(st.dictionaries(NAMES, st.sets(NAMES, max_size=3), max_size=3))
def test_class_folders_are_those_with_images(tree):
    with folder() as path:
        for category, names in tree.items():
            (path / category).mkdir()
            for name in names:
                (path / category / name).touch()
        expected = sorted(
            f"{category}/{name}" for category, names in tree.items() for name in names
        )
        if len(expected) < 2:  # nothing, or nothing to hold out
            with pytest.raises(InputError):
                load(path)
            return
        data = load(path)
    assert isinstance(data.images, Files)
    assert sorted(data.images.names) == expected
    assert len(data.label_names) == sum(map(bool, tree.values()))
    for place, label in zip(data.images.places[0], data.labels):
        assert printable(data.images.names[place]).startswith(f"{data.label_names[label]}/")


@FEW
@given(st.dictionaries(NAMES, st.binary(max_size=20), min_size=1, max_size=4), st.data())
def test_a_manifest_notices_every_change(files, data):
    with folder() as path:
        for name, content in files.items():
            (path / name).write_bytes(content)
        recorded = manifest.make(path)
        assert manifest.read(path) == recorded and recorded.keys() == files.keys()
        assert manifest.check(path) == []
        name = data.draw(st.sampled_from(sorted(files)))
        other = data.draw(st.binary(max_size=20).filter(lambda content: content != files[name]))
        (path / name).write_bytes(other)
        assert manifest.check(path) == [f"{name}: has changed"]


@FEW
@given(st.binary() | JSON.map(lambda value: json.dumps({"schema": 1, "sha256": value}).encode()))
def test_any_manifest_is_read_or_refused(content):
    with folder() as path:
        (path / manifest.NAME).write_bytes(content)
        try:
            recorded = manifest.read(path)
        except InputError as error:
            assert str(error).startswith(f"{path / manifest.NAME}: ")
        else:
            assert all(len(digest) == 64 for digest in recorded.values())
