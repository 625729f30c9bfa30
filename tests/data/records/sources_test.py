"""Records of every format as a dataset: the same pictures, batches, and lists of what is broken."""

import dataclasses
import pathlib

import numpy as np
import pytest

from socialjepa_jax.data import manifest, order
from socialjepa_jax.data.indexed import Calls
from socialjepa_jax.data.records.blobs import Records
from socialjepa_jax.errors import InputError
from tests.data.image_folder import encoded, random_image
from tests.data.records.record_files import COUNT, NAMES, SIZE, WRITERS, pictures

STEPS, BATCH = 2, 4
VICTIM = 5  # of the pictures


@pytest.fixture(scope="module", params=WRITERS)
def written(request, tmp_path_factory):
    return WRITERS[request.param](tmp_path_factory.mktemp("records"), pictures())


@pytest.fixture(scope="module", params=WRITERS)
def broken(request, tmp_path_factory):
    """Two data sets, and the second has one picture that is cut short."""
    given = pictures()
    name, blob, label = given[VICTIM]
    cut = [*given[:VICTIM], (name, blob[:60], label), *given[VICTIM + 1 :]]
    write = WRITERS[request.param]
    return [write(tmp_path_factory.mktemp("records"), some) for some in (given, cut)]


def calls(data, cache):
    """The batches of two agents, as one process reads them."""
    dataset = data.load(cache)
    keys = np.asarray(order.epoch_keys(np.arange(2, dtype=np.uint32), 9))
    return Calls(
        dataset.images, (0, 0), np.arange(COUNT), keys, np.zeros(2, np.int64), BATCH, STEPS,
        agents=(0, 2), slots=(0, BATCH),
    )  # fmt: skip


def test_a_record_is_what_was_written(written, tmp_path):
    dataset = written.load(tmp_path)
    assert isinstance(dataset.images, Records) and dataset.num_states == COUNT
    found = {
        np.asarray(image).tobytes(): label
        for image, label in zip(dataset.images[0], dataset.labels)
    }
    expected = {random_image(n, SIZE).tobytes(): label for n, (*_, label) in enumerate(pictures())}
    assert found == expected
    assert dataset.label_names in (NAMES, ("0", "1", "2"))  # ArrayRecord files name no category
    assert len(set(dataset.instance_ids.tolist())) == COUNT
    files = 1 if dataset.images.names[0].count(".tar") else 2
    said = f"24 in {files} files, 3 categories; 0 of them could not be read"
    assert dataset.facts[0][0] == "Records" and dataset.facts[0][1].startswith(said)


def test_a_stream_shows_what_is_resident(written, tmp_path):
    resident = dataclasses.replace(written, read="resident").load(tmp_path)
    assert isinstance(resident.images, np.ndarray)
    stream = written.load(tmp_path)
    np.testing.assert_array_equal(np.asarray(stream.images), resident.images)
    np.testing.assert_array_equal(stream.images[0, 3], resident.images[0, 3])


def test_the_index_is_read_once(written, tmp_path, monkeypatch):
    first = written.load(tmp_path)
    monkeypatch.setattr("socialjepa_jax.data.records.index.scan", None)
    monkeypatch.setattr("tarfile.open", None)
    again = written.load(tmp_path)
    np.testing.assert_array_equal(again.factors, first.factors)
    assert again.images.fingerprint() == first.images.fingerprint()


def test_a_broken_record_is_listed_and_replaced_and_moves_nothing(broken, tmp_path):
    whole, damaged = (calls(data, tmp_path) for data in broken)
    before, after = ([part[number] for number in range(8)] for part in (whole, damaged))
    assert not any(element["broken"] for element in before)
    listed = {name for element in after for name, _ in element["broken"]}
    assert len(listed) == 1 and "#" in listed.pop()
    images = np.asarray(whole.files[0])
    (victim,) = np.flatnonzero((images == random_image(VICTIM, SIZE)).all(axis=(1, 2, 3)))
    for b, a in zip(before, after):
        replaced = b["rows"] != a["rows"]
        np.testing.assert_array_equal(replaced, b["rows"] == victim)
        np.testing.assert_array_equal(a["images"], images[a["rows"]])
    assert any((b["rows"] == victim).any() for b in before)
    with pytest.raises(InputError, match=r"#\d+: .") as caught:
        dataclasses.replace(broken[1], read="resident").load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_manifest_notices_what_a_decoder_does_not(written, tmp_path):
    path = pathlib.Path(written.load(tmp_path).images.blobs.shards.paths[0])
    folder = path.parent
    strict = dataclasses.replace(written, manifest=True)
    with pytest.raises(InputError, match=r"manifest\.json: cannot be read"):
        strict.load(tmp_path)
    manifest.make(folder)
    strict.load(tmp_path)
    recorded = (folder / manifest.NAME).read_text()
    digest = manifest.read(folder)[path.name]
    (folder / manifest.NAME).write_text(recorded.replace(digest, digest[::-1]))
    with pytest.raises(InputError, match=r"is not the file of the manifest"):
        strict.load(tmp_path)
    (folder / manifest.NAME).write_text(recorded.replace(path.name, "other"))
    with pytest.raises(InputError, match=rf"{path.name}: is not in manifest\.json"):
        strict.load(tmp_path)


PHOTOGRAPH = random_image(0, 32)


@pytest.mark.parametrize("write", [WRITERS["array_record"], WRITERS["parquet"]])
def test_cmyk_and_16_bits(write, tmp_path):
    """As of files: one mode is refused by name, the other is scaled (see images_test)."""
    from PIL import Image

    given = pictures()
    cmyk = encoded(Image.fromarray(PHOTOGRAPH).convert("CMYK"), "JPEG")
    given[1] = (given[1][0], cmyk, given[1][2])
    deep = encoded(Image.fromarray(np.full((4, 4), 257 * 7, np.uint16)))
    given[2] = (given[2][0], deep, given[2][2])
    images = write(tmp_path, given).load(tmp_path).images
    pixels, _, wrong = images.read()
    assert [reason for _, reason in wrong] == ["mode CMYK is neither grey (L) nor RGB"]
    assert (pixels == 7).all(axis=(2, 3, 4)).sum() == 1


def test_a_record_is_named_by_its_file_and_position(tmp_path):
    images = WRITERS["array_record"](tmp_path, pictures()).load(tmp_path).images
    assert images.names[0] == "train.array_record-00000-of-00002#0"
    assert images.names[COUNT // 2 + 1] == "train.array_record-00001-of-00002#1"
    assert images.names[1:3] == [images.names[1], images.names[2]] and len(images.names) == COUNT
