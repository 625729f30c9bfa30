"""Datasets of tensorflow-datasets: found by name, in both formats, and without TensorFlow."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from socialjepa_jax.data.records.tfds import TfdsData
from socialjepa_jax.errors import InputError
from tests.data.records import record_files, tiny_dataset
from tests.data.records.record_files import COUNT, SIZE, pictures

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    record_files.write_tfds(folder, pictures())
    return folder


def test_parquet_is_read_as_array_records_are(folder, tmp_path):
    records = TfdsData(path=str(folder), image_size=SIZE).load(tmp_path)
    rows = record_files.write_tfds(tmp_path, pictures(), "parquet").load(tmp_path)
    np.testing.assert_array_equal(np.asarray(rows.images), np.asarray(records.images))
    np.testing.assert_array_equal(rows.labels, records.labels)


@pytest.mark.parametrize("path, name", [("", "tiny"), ("", "tiny/1.0.0"), ("tiny/1.0.0", "")])
def test_a_version_is_found(folder, tmp_path, path, name):
    assert TfdsData(path=str(folder / path), name=name).load(tmp_path).num_states == COUNT


def _change(folder, tmp_path, change):
    """A copy of the folder whose description is changed."""
    import shutil

    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "tiny" / "1.0.0" / "dataset_info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))
    return TfdsData(path=str(tmp_path / "copy"))


@pytest.mark.parametrize(
    "fields, message",
    [
        (
            {"name": "other"},
            r"no dataset .* nothing is downloaded unless data\.download=True",
        ),
        ({"split": "test"}, "no split 'test', it has train"),
        ({"names": {"image": "picture"}}, "no feature 'picture', it has file_name, image, label"),
        ({"names": {"image": "label"}}, "feature 'label' is no image"),
        ({"names": {"label": "file_name"}}, "feature 'file_name' is no integer"),
    ],
)
def test_what_is_not_there_is_named(folder, tmp_path, fields, message):
    from socialjepa_jax.data.records.index import Names

    if "names" in fields:
        fields = {"names": Names(**fields["names"])}
    with pytest.raises(InputError, match=message):
        TfdsData(path=str(folder), **fields).load(tmp_path)


def test_numbers_of_records_are_those_of_the_description(folder, tmp_path):
    def fewer(info):
        info["splits"][0]["shardLengths"] = ["12", "11"]

    with pytest.raises(InputError, match=r"00001-of-00002: has 12 records, .* says 11"):
        _change(folder, tmp_path, fewer).load(tmp_path)


def test_a_format_without_random_access_is_named(folder, tmp_path):
    def sequential(info):
        info["fileFormat"] = "tfrecord"

    data = _change(folder, tmp_path, sequential)
    for path in (tmp_path / "copy").rglob("*array_record*"):
        path.rename(path.with_name(path.name.replace("array_record", "tfrecord")))
    with pytest.raises(InputError, match="no format of random access; convert it once"):
        data.load(tmp_path)


def test_several_datasets_must_be_told_apart(folder, tmp_path):
    import shutil

    for name in ("one", "two"):
        shutil.copytree(folder / "tiny", tmp_path / name)
    with pytest.raises(InputError, match=r"holds one/1\.0\.0, two/1\.0\.0; name one"):
        TfdsData(path=str(tmp_path)).load(tmp_path)


WITHOUT = """
import importlib.machinery, os, pathlib, sys

class Forbidden:  # found, so that whoever asks for it imports it
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tensorflow":
            return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        print("imports", module.__name__, flush=True)
        os._exit(7)

sys.meta_path.insert(0, Forbidden())
from socialjepa_jax.data.records.tfds import TfdsData
import numpy as np
dataset = TfdsData(path=sys.argv[1], image_size=8).load(pathlib.Path(sys.argv[2]))
print(np.asarray(dataset.images).shape)
"""


def test_tensorflow_is_never_imported(folder, tmp_path):
    command = [sys.executable, "-c", WITHOUT, str(folder), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split("\n")[-2]) == (0, "(1, 24, 8, 8, 3)"), done.stderr
    hook = WITHOUT.partition("from socialjepa_jax")[0]
    command = [sys.executable, "-c", f"{hook}import tensorflow"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 7 and "imports tensorflow" in done.stdout  # or nothing was forbidden


def test_what_is_not_installed_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(InputError, match=r"needs tensorflow-datasets .*socialjepa_jax\[data\]"):
        TfdsData(path=str(folder)).load(tmp_path)


def test_downloading_is_asked_for(tmp_path, monkeypatch):
    """No dataset is downloaded here: the builder that would do it is a stand-in."""
    asked = []

    class Builder:
        def __init__(self, name, **fields):
            asked.append((name, fields))

        def download_and_prepare(self):
            raise OSError("there is no\nnetwork")

    monkeypatch.setattr(tiny_dataset.tfds, "builder", Builder)
    with pytest.raises(InputError, match="holds no dataset"):
        TfdsData(path=str(tmp_path), name="mnist").load(tmp_path)
    assert not asked
    with pytest.raises(InputError, match=r"'mnist' cannot be prepared in .*there is no network"):
        TfdsData(path=str(tmp_path), name="mnist", download=True).load(tmp_path)
    assert asked == [("mnist", {"data_dir": tmp_path, "file_format": "array_record"})]
