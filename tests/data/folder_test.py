"""Files as a dataset: class folders and tables, strict decoding, and clear refusals."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image, ImageOps

from socialjepa_jax.data import base
from socialjepa_jax.data import images as images_lib
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.errors import InputError
from tests.data.image_folder import SPLITS, encoded, random_image, write_table


def test_a_table_pairs_the_files(tmp_path):
    data = write_table(tmp_path).load(tmp_path)
    assert data.label_names == ("animal", "cup")
    assert data.images.shape == (2, 12, 8, 8, 3)
    for camera, state in itertools.product(range(2), range(12)):
        category, instance, azimuth = data.factors[state]
        first = 12 * (1 - category) + 4 * (2 - instance)  # sorted: 9, a, b; animal, cup
        number = first + (azimuth + 180 * camera) // 90
        np.testing.assert_array_equal(data.images[camera, state], random_image(number))


def test_a_stream_shows_the_same_images(tmp_path):
    config = write_table(tmp_path)
    resident = config.load(tmp_path)
    stream = FolderData(**{**vars(config), "read": "stream"}).load(tmp_path)
    assert stream.images.shape == resident.images.shape
    np.testing.assert_array_equal(np.asarray(stream.images), resident.images)
    np.testing.assert_array_equal(stream.images[1, 5], resident.images[1, 5])
    keep = np.arange(12) % 3 > 0
    part = stream.subset(keep)
    np.testing.assert_array_equal(np.asarray(part.images[0]), resident.images[0, keep])
    assert (part.num_states, part.num_dropped) == (8, 4)
    np.testing.assert_array_equal(part.state_ids, resident.state_ids[keep])


def test_class_folders(tmp_path):
    for category, thing in itertools.product(("x", "y"), ("a", "b")):
        (tmp_path / category / thing).mkdir(parents=True)
        for number in range(2):
            path = tmp_path / category / thing / f"{number}.PNG"
            path.write_bytes(encoded(random_image(number, 6)))
    (tmp_path / "x" / "single.jpg").write_bytes(encoded(random_image(7), "JPEG"))
    (tmp_path / "x" / ".hidden").write_text("")
    (tmp_path / "README").write_text("")
    one = base.Protocol(azimuths=(0,))
    data = FolderData(path=str(tmp_path), image_size=6, protocol=one, splits=SPLITS).load(tmp_path)
    assert data.factor_names == ("category", "instance", "picture")
    assert data.factors.tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 2, 0],
        [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1],
    ]  # fmt: skip
    np.testing.assert_array_equal(data.images[0, 8], random_image(1, 6))


PALETTE = Image.fromarray(random_image(0)).quantize(4)
BAD = {
    "empty": (b"", "cannot identify it as JPEG or PNG"),
    "text": (b"not an image", "cannot identify"),
    "another format": (encoded(random_image(0), "BMP"), "cannot identify"),
    "half a PNG": (encoded(random_image(0))[:100], "."),
    "half a JPEG": (encoded(random_image(0, 32), "JPEG")[:700], "truncated"),
    "alpha": (encoded(Image.fromarray(random_image(0)).convert("RGBA")), "mode RGBA"),
    "a palette": (encoded(PALETTE), "mode P"),
    "CMYK": (encoded(Image.fromarray(random_image(0)).convert("CMYK"), "JPEG"), "mode CMYK"),
    "a bomb": (encoded(Image.new("L", (10_000, 9_000))), "decompression bomb"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_file_is_named_in_one_line_or_is_black(tmp_path, name):
    config = write_table(tmp_path)
    content, words = BAD[name]
    (tmp_path / "images" / "5.png").write_bytes(content)
    with pytest.raises(InputError, match=rf"^\S*5\.png: .*{words}") as caught:
        config.load(tmp_path)
    assert "\n" not in str(caught.value)
    images = FolderData(**{**vars(config), "read": "stream"}).load(tmp_path).images
    _, good, broken = images.read()
    assert (~good).sum() == 1 and [name for name, _ in broken] == ["images/5.png"]
    assert (np.asarray(images)[~good] == 0).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_as_its_camera_says(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(random_image(0)[:5])
    blob = encoded(image, "PNG", exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(blob)))
    np.testing.assert_array_equal(images_lib.decode(blob), np.asarray(expected))
    assert images_lib.decode(blob).shape[:2] == ((8, 5) if orientation > 4 else (5, 8))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.replace("thing", "object"), "no column 'thing'"),
        (lambda t: t.replace(",file", ""), "no column 'file'"),
        (lambda t: t + "\n0,cup", "row 25 has too"),
        (lambda t: t.replace("90,cup,b", "ninety,cup,b"), "azimuth='ninety' must be an integer"),
        (lambda t: t.replace("/3.png", "/none.png"), r"none\.png: no such file"),
        (lambda t: t.replace("images/3.png", "../3.png"), r"'\.\./3\.png' leaves the folder"),
        (lambda t: t.replace("images/3.png", "/3.png"), r"'/3\.png' leaves the folder"),
        (lambda t: t.splitlines()[0], "has no rows"),
        (lambda t: t + '\n0,cup,b,"x', "is no CSV file"),
        (lambda t: t.replace("\n90,cup,b", "\n0,cup,b"), "two images have the factors"),
        (lambda t: t.replace("\n90,cup,b", "\n-5,cup,b"), "azimuth=-5"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, change, message):
    config = write_table(tmp_path)
    path = tmp_path / "table.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message):
        config.load(tmp_path)


def test_folders_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        FolderData(path=str(tmp_path / "none")).load(tmp_path)
    with pytest.raises(InputError, match="there are no images"):
        FolderData(path=str(tmp_path)).load(tmp_path)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    with pytest.raises(InputError, match=r"a/b/c: is no \.jpg"):
        FolderData(path=str(tmp_path)).load(tmp_path)
    config = write_table(tmp_path)
    with pytest.raises(InputError, match=r"gone\.csv: cannot be read"):
        FolderData(**{**vars(config), "table": "gone.csv"}).load(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"read": "later"},
        {"workers": -1},
        {"max_broken": 1.5},
        {"image_size": 0},
        {"channels": 4},
        {"columns": (("category", "category"),)},
    ],
)
def test_bad_configurations_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        FolderData(**fields)
