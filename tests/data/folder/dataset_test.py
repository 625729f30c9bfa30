"""Files as a dataset: class folders and tables, strict decoding, and clear refusals."""

import dataclasses
import io
import itertools
import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from socialjepa_jax.data import base, manifest
from socialjepa_jax.data import images as images_lib
from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.folder.dataset import SINGLE
from socialjepa_jax.data.smallnorb import SmallNorbData
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


def _write_cameras(folder, names, suffixes=(".png", ".PNG")):
    """Image number 10 k + n of camera k is file n."""
    for (k, camera), (number, name) in itertools.product(enumerate(("L", "R")), enumerate(names)):
        path = folder / camera / f"{name}{suffixes[k]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(random_image(10 * k + number, 6)))


def _of_cameras(folder, **fields):
    fields = {"splits": base.Splits(test_instances=1, test_states=0.5)} | fields
    return FolderData(path=str(folder), image_size=6, cameras=("L", "R"), **fields)


@pytest.mark.parametrize(
    ("names", "labels", "objects"),
    [
        (["b", "a", "d", "c"], 1, [0, 1, 2, 3]),
        (["x/1", "x/0", "y/1", "y/0"], 2, [0, 1, 0, 1]),
        (["x/t/1", "x/t/0", "x/s/1", "x/s/0"], 1, [0, 0, 1, 1]),
    ],
)
def test_a_folder_for_each_camera(tmp_path, names, labels, objects):
    """Files of one path, whatever their format, are one state; folders are objects."""
    _write_cameras(tmp_path, names)
    data = _of_cameras(tmp_path).load(tmp_path)
    assert (data.num_cameras, data.num_states, len(data.label_names)) == (2, 4, labels)
    assert data.factor_names == ("category", "instance", "picture")
    assert data.factors[:, 1].tolist() == objects
    order = np.argsort(names)  # states are in the order of their names
    for camera, state in itertools.product(range(2), range(4)):
        number = 10 * camera + order[state]
        np.testing.assert_array_equal(data.images[camera, state], random_image(number, 6))


def test_single_files_are_called_objects_of_their_own(tmp_path, caplog):
    _write_cameras(tmp_path / "flat", ["a", "b", "c", "d"])
    assert dict(_of_cameras(tmp_path / "flat").load(tmp_path).facts) == {"Objects": SINGLE}
    assert SINGLE in caplog.text
    _write_cameras(tmp_path / "things", ["x/t/1", "x/t/0", "x/s/1", "x/s/0"])
    assert dict(_of_cameras(tmp_path / "things").load(tmp_path).facts) == {}


def test_states_that_a_camera_lacks_are_dropped(tmp_path):
    _write_cameras(tmp_path, ["a", "b", "c", "d", "e"])
    (tmp_path / "R" / "b.PNG").unlink()
    data = _of_cameras(tmp_path).load(tmp_path)
    assert (data.num_states, data.num_dropped) == (4, 1)


def test_a_table_may_name_the_cameras(tmp_path):
    _write_cameras(tmp_path, ["a", "b", "c", "d"])
    lines = ["file,camera,category,instance,pose"]
    for camera, end in (("R", "PNG"), ("L", "png")):
        for k, name in enumerate("abcd"):
            lines.append(f"{camera}/{name}.{end},{camera},cup,{name},{7 * k}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    columns = tuple((name, name) for name in ("category", "instance", "pose"))
    given = _of_cameras(tmp_path, table="t.csv", columns=columns)
    data = given.load(tmp_path)
    assert data.factors.tolist() == [[0, k, 7 * k] for k in range(4)]
    np.testing.assert_array_equal(data.images[1, 2], random_image(12, 6))
    (tmp_path / "t.csv").write_text("\n".join(lines).replace(",R,cup,c", ",M,cup,c"))
    with pytest.raises(InputError, match="row 3: camera='M' must be one of L, R"):
        given.load(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cameras": ("L",)}, "cameras=.* must be two names or more"),
        ({"cameras": ("L", "L")}, "cameras=.* all different"),
        ({"cameras": ("L", "")}, "cameras=.* must be two names or more"),
        ({"table": "t.csv"}, "no azimuth, which the column 'camera' replaces"),
        ({"table": "t.csv", "columns": (("category", "a"),)}, "must name 'instance' once"),
        (
            {
                "table": "t.csv",
                "columns": tuple((n, n) for n in ("category", "instance", "instance")),
            },
            "must name 'instance' once",
        ),
    ],
)
def test_cameras_that_cannot_be_are_refused(tmp_path, fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(_of_cameras(tmp_path), **fields)


def test_a_camera_without_images_is_refused(tmp_path):
    _write_cameras(tmp_path, ["a", "b"])
    with pytest.raises(InputError, match="Q: no such folder of a camera"):
        dataclasses.replace(_of_cameras(tmp_path), cameras=("L", "Q")).load(tmp_path)
    (tmp_path / "Q").mkdir()
    with pytest.raises(InputError, match="Q: there are no images in it"):
        dataclasses.replace(_of_cameras(tmp_path), cameras=("L", "Q")).load(tmp_path)
    (tmp_path / "Q" / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"notes.txt: is no .jpg, .jpeg, .png file"):
        dataclasses.replace(_of_cameras(tmp_path), cameras=("L", "Q")).load(tmp_path)


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


def _of_classes(folder, **fields):
    one = base.Protocol(azimuths=(0,))
    return FolderData(path=str(folder), image_size=6, protocol=one, splits=SPLITS, **fields)


def _write_classes(folder):
    for category, thing in itertools.product(("x", "y"), ("a", "b")):
        (folder / category / thing).mkdir(parents=True)
        for number in range(2):
            path = folder / category / thing / f"{number}.PNG"
            path.write_bytes(encoded(random_image(number, 6)))


def test_class_folders(tmp_path):
    _write_classes(tmp_path)
    (tmp_path / "x" / "single.jpg").write_bytes(encoded(random_image(7), "JPEG"))
    (tmp_path / "x" / ".hidden").write_text("")
    (tmp_path / "README").write_text("")
    data = _of_classes(tmp_path).load(tmp_path)
    assert data.factor_names == ("category", "instance", "picture")
    assert data.factors.tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 2, 0],
        [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1],
    ]  # fmt: skip
    np.testing.assert_array_equal(data.images[0, 8], random_image(1, 6))


@pytest.mark.parametrize(
    "name",
    ["empty/", "deep/empty/", ".hidden/z/0.png", "__MACOSX/x/0.png", "dotted/.0.png",
     "a/__MACOSX/0.png", "x/0empty/", "x/__MACOSX/0.png"],
)  # fmt: skip
def test_folders_without_images_are_no_categories_and_no_objects(tmp_path, name):
    _write_classes(tmp_path)
    expected = _of_classes(tmp_path).load(tmp_path)
    path = tmp_path / name
    (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
    if not name.endswith("/"):
        path.write_bytes(encoded(random_image(5, 6)))
    data = _of_classes(tmp_path).load(tmp_path)
    assert data.label_names == expected.label_names == ("x", "y")
    np.testing.assert_array_equal(data.factors, expected.factors)
    np.testing.assert_array_equal(data.images, expected.images)


def test_names_that_are_not_utf8_are_names(tmp_path):
    _write_classes(tmp_path)
    expected = _of_classes(tmp_path).load(tmp_path)
    os.rename(tmp_path / "y" / "b" / "1.PNG", os.fsencode(tmp_path / "y" / "b") + b"/1\xff.png")
    os.rename(tmp_path / "x", os.fsencode(tmp_path) + b"/caf\xe9")
    data = _of_classes(tmp_path, read="stream").load(tmp_path)
    assert data.label_names == (r"caf\xe9", "y")
    np.testing.assert_array_equal(np.asarray(data.images), expected.images)
    fingerprint = data.images.fingerprint()
    os.utime(os.fsencode(tmp_path / "y" / "b") + b"/1\xff.png", (0, 0))
    assert data.images.fingerprint() != fingerprint
    manifest.make(tmp_path)
    strict = _of_classes(tmp_path, manifest=True).load(tmp_path)
    np.testing.assert_array_equal(strict.images, expected.images)


@pytest.mark.parametrize("place", ["x/a/link.png", "x/link", "link"])
@pytest.mark.parametrize("target", ["gone", "link"])
def test_a_broken_link_is_called_one(tmp_path, place, target):
    _write_classes(tmp_path)
    link = tmp_path / place
    link.symlink_to(link if target == "link" else tmp_path / target)
    with pytest.raises(InputError, match=rf"{place}: is a broken link$"):
        _of_classes(tmp_path).load(tmp_path)


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
        (lambda t: t.replace("\n90,cup,b", "\n--5,cup,b"), "azimuth='--5' must be an integer"),
        (lambda t: t.replace("\n90,cup,b", f"\n{'9' * 80},cup,b"), "99' must be an integer"),
        (lambda t: t.replace("\n90,cup,b", f"\n{'9' * 400},cup,b"), "99\\.\\.\\. must be an"),
        (lambda t: t.replace("images/3.png", "i" * 300), "iii: no such file"),
        (lambda t: t.replace("images/3.png", "images/\0.png"), "png: no such file"),
        (lambda t: t.replace("images/3.png", "images/link.png"), "link.png: is a broken link"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, change, message):
    config = write_table(tmp_path)
    (tmp_path / "images" / "link.png").symlink_to("gone")
    path = tmp_path / "table.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message):
        config.load(tmp_path)


def test_a_number_of_any_length_names_a_category(tmp_path):
    config = write_table(tmp_path)
    path = tmp_path / "table.csv"
    path.write_text(path.read_text().replace("cup", "9" * 5000))
    assert config.load(tmp_path).label_names == ("9" * 5000, "animal")


@pytest.mark.parametrize("read", [FolderData, ArraysData, SmallNorbData])
@pytest.mark.parametrize(
    "path, message",
    [
        ("~nosuchuser/x", "path=~nosuchuser/x: no such user"),
        ("{tmp}/" + "a" * 300, "aaa.*no such|aaa.*File name too long"),
        ("{tmp}/link/x", "link.*no such"),
        ("\udcff\0", "no such|embedded null"),
    ],
)
def test_odd_paths_are_refused(tmp_path, read, path, message):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match=message):
        read(path=path.replace("{tmp}", str(tmp_path))).load(tmp_path)


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    config = write_table(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    path = f"~/{tmp_path.name}"
    found = FolderData(**{**vars(config), "path": path, "table": f"{path}/table.csv"})
    np.testing.assert_array_equal(found.load(tmp_path).images, config.load(tmp_path).images)


def test_folders_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        FolderData(path=str(tmp_path / "none")).load(tmp_path)
    with pytest.raises(InputError, match="there are no images"):
        FolderData(path=str(tmp_path)).load(tmp_path)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    with pytest.raises(InputError, match=r"a/b/c: is no \.jpg"):
        FolderData(path=str(tmp_path)).load(tmp_path)
    config = write_table(tmp_path)
    for table, message in (("gone.csv", "gone.csv: no such table; .*a folder for each camera"),
                           ("\0", "no such table"), (".", "cannot be read")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            FolderData(**{**vars(config), "table": table}).load(tmp_path)


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
