"""Records that cannot be used are named in one line, before anything is trained."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.bench import input_files
from socialjepa_jax.data.base import Protocol
from socialjepa_jax.data.records.shards import ShardsData
from socialjepa_jax.data.records.tfds import TfdsData
from socialjepa_jax.errors import InputError
from tests.data.records import record_files
from tests.data.records.record_files import WRITERS, pictures


def refused(data, tmp_path, message):
    with pytest.raises(InputError, match=message) as caught:
        data.load(tmp_path / "cache")
    assert "\n" not in str(caught.value)


def last_shard(folder, pattern):
    return sorted(folder.rglob(pattern))[-1]


SHARD = {
    "array_record": "train.array_record-00001*",
    "parquet": "*00001-of-*",
    "train tar": "*.tar",
    "val tar": "*.tar",
    "tfds": "*train*-00001-of-*",
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_truncated_file_is_named(tmp_path, name, share):
    data = WRITERS[name](tmp_path, pictures())
    path = last_shard(tmp_path, SHARD[name])
    os.truncate(path, int(share * path.stat().st_size))
    refused(data, tmp_path, rf"{path.name}: (is truncated|is no ArrayRecord|there are no images)")


@pytest.mark.parametrize("name", ["array_record", "parquet", "tfds"])
def test_a_file_that_is_missing_is_missed(tmp_path, name):
    data = WRITERS[name](tmp_path, pictures())
    last_shard(tmp_path, SHARD[name]).unlink()
    refused(data, tmp_path, r"missing is number 1|00001-of-00002: cannot be read")


@pytest.mark.parametrize("name", WRITERS)
def test_an_id_that_occurs_twice_is_named(tmp_path, name):
    given = pictures()
    given[-1] = (given[0][0], given[-1][1], given[0][2])
    data = WRITERS[name](tmp_path, given)
    refused(data, tmp_path, rf"#\d+ and .*#\d+ have the same id '.*{given[0][0]}'")


def _table(**columns):
    return pa.table(columns)


BLOBS = [blob for _, blob, _ in pictures(4)]


@pytest.mark.parametrize(
    "table, message",
    [
        (_table(picture=BLOBS, label=[0, 1, 0, 1]), "no column 'image', it has picture, label"),
        (_table(image=BLOBS, category=[0, 1, 0, 1]), "no column 'label', it has image, category"),
        (_table(image=["a"] * 4, label=[0, 1, 0, 1]), "'image' is string, must be binary"),
        (_table(image=BLOBS, label=["a"] * 4), "'label' is string, must be integer"),
        (_table(image=BLOBS, label=[0, 1, None, 1]), "'label' has 1 empty rows"),
        (_table(image=BLOBS, label=[0, 1, -1, 1]), r"#2: label=-1 must be 0 to 1"),
        (_table(image=BLOBS, label=[0, 1, -7, 1]), r"#2: label=-7 must be 0 to 1"),
        (_table(image=BLOBS, label=[0, 1, 0, 1]).slice(0, 0), "there are no records"),
    ],
)
def test_a_parquet_file_of_another_schema_is_named(tmp_path, table, message):
    pq.write_table(table, tmp_path / "a.parquet")
    refused(ShardsData(path=str(tmp_path)), tmp_path, rf"a\.parquet.*{message}")


def test_parquet_files_of_two_schemas_are_named(tmp_path):
    record_files.write_parquet(tmp_path, pictures())
    pq.write_table(_table(image=BLOBS, label=[0, 1, 0, 1]), tmp_path / "z.parquet")
    refused(ShardsData(path=str(tmp_path)), tmp_path, r"z\.parquet: has other columns than train-")


def test_an_image_that_is_missing_in_a_row_is_broken(tmp_path):
    pq.write_table(_table(image=[None, *BLOBS[1:]], label=[0, 1, 0, 1]), tmp_path / "a.parquet")
    images = ShardsData(path=str(tmp_path), image_size=8).load(tmp_path).images
    _, good, broken = images.read()
    assert broken == [("a.parquet#0", "has no image")] and good.sum() == 3


@pytest.mark.parametrize(
    "features, message",
    [
        ({"label": 1}, "has no feature 'image', it has label"),
        ({"image": b"x", "name": b"y"}, "has no feature 'label', it has image, name"),
        ({"image": 3, "label": 1}, "'image' must be one value of type bytes"),
        ({"image": b"x", "label": b"1"}, "'label' must be one value of type int"),
        ({"image": b"x", "label": -3}, "label=-3 must be 0 to"),
    ],
)
def test_array_records_of_other_features_are_named(tmp_path, features, message):
    from array_record.python import array_record_module

    writer = array_record_module.ArrayRecordWriter(str(tmp_path / "a.array_record"), "group_size:1")
    writer.write(input_files.example(features))
    writer.close()
    refused(ShardsData(path=str(tmp_path)), tmp_path, rf"a\.array_record#0: .*{message}")


def test_a_flipped_byte_is_one_broken_record(tmp_path):
    data = WRITERS["array_record"](tmp_path, pictures())
    path = last_shard(tmp_path, "train*00001*")
    content = bytearray(path.read_bytes())
    content[content.index(pictures()[-1][1][-60:])] ^= 1
    path.write_bytes(content)
    dataset = data.load(tmp_path)
    _, good, broken = dataset.images.read()
    ((name, reason),) = broken
    assert name == "train.array_record-00001-of-00002#11" and "hash mismatch" in reason
    assert good.sum() == len(pictures()) - 1
    assert "; 1 of them could not be read" in dict(dataset.facts)["Records"]


def test_folders_without_records_are_named(tmp_path):
    refused(ShardsData(), tmp_path, "path='': no such folder")
    refused(ShardsData(path=str(tmp_path / "none")), tmp_path, "no such folder")
    refused(ShardsData(path=str(tmp_path)), tmp_path, r"no \.array_record, \.parquet or \.tar")
    record_files.write_parquet(tmp_path, pictures())
    refused(ShardsData(path=str(tmp_path), files="val*"), tmp_path, r"fits files='val\*'")
    record_files.write_val_tar(tmp_path, pictures())
    refused(ShardsData(path=str(tmp_path)), tmp_path, "fits parquet and tar files")
    tars = ShardsData(path=str(tmp_path), files="*.tar")
    refused(tars, tmp_path, r"img_val\.tar#0: is in no inner tar and no folder")
    (tmp_path / "few.txt").write_text("n01\nn02\n")
    few = ShardsData(path=str(tmp_path), files="*.tar", labels="few.txt")
    refused(few, tmp_path, r"few\.txt: has 2 labels for 24 images")


def test_a_tar_of_other_files_is_named(tmp_path):
    import tarfile

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        input_files.add(tar, "x/readme.txt", b"hello")
    refused(ShardsData(path=str(tmp_path)), tmp_path, r"a\.tar: x/readme\.txt is no \.jpg")
    with tarfile.open(tmp_path / "a.tar", "w:gz") as tar:
        input_files.add(tar, "x/0.png", BLOBS[0])
    refused(ShardsData(path=str(tmp_path)), tmp_path, r"a\.tar: is truncated or no plain tar")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ShardsData(kind="other"), "kind"),
        (lambda: ShardsData(read="later"), "read"),
        (lambda: ShardsData(protocol=Protocol()), "one camera"),
        (lambda: TfdsData(download=True), "download=True needs the name"),
    ],
)
def test_bad_configurations_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
