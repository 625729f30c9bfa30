"""Arrays and encoded images as datasets: factors, sizes, and clear refusals."""

import io
import itertools
import pathlib
import zipfile

import numpy as np
import pytest
from PIL import Image

from socialjepa_jax import errors
from socialjepa_jax.data import arrays, base
from socialjepa_jax.errors import InputError

COLUMNS = (
    ("category", "kind"),
    ("instance", "object"),
    ("elevation", "polar"),
    ("azimuth", "azimuth"),
)
SPLITS = base.Splits(test_instances=1, test_states=0.25)


def _arrays() -> dict[str, np.ndarray]:
    """Polar 90 has eight azimuths, polar 0 one, like photographs on a dome."""
    views = [(0, 0)] + [(90, azimuth) for azimuth in range(0, 360, 45)]
    factors = np.array([(*a, *b) for a in itertools.product((0, 1), (3, 9)) for b in views])
    images = np.zeros((len(factors), 8, 8, 3), np.uint8)
    images[...] = np.arange(len(factors), dtype=np.uint8)[:, None, None, None]
    images[..., 1] += factors[:, 1, None, None].astype(np.uint8)
    return {
        "images": images,
        "kind": factors[:, 0].astype(np.int8),
        "object": factors[:, 1].astype(np.int8),
        "polar": factors[:, 2].astype(np.int16),
        "azimuth": factors[:, 3].astype(np.int16),
        "names": np.array(["cup", "horse"]),
    }


def _encode(images: np.ndarray) -> dict[str, np.ndarray]:
    blobs = []
    for image in images:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        blobs.append(stream.getvalue())
    offsets = np.cumsum([0] + [len(blob) for blob in blobs])
    return {"png": np.frombuffer(b"".join(blobs), np.uint8), "offset": offsets}


def _save(path: pathlib.Path, contents: dict[str, np.ndarray]) -> pathlib.Path:
    np.savez_compressed(path, **contents)
    return path


def _load(path: pathlib.Path, **fields) -> base.ViewDataset:
    fields = {"columns": COLUMNS, "splits": SPLITS, "label_names": "names"} | fields
    return arrays.ArraysData(path=str(path), **fields).load(path.parent)


def test_views_of_photographs_on_a_dome(tmp_path):
    contents = _arrays()
    data = _load(_save(tmp_path / "dome.npz", contents))
    assert data.name == "dome"
    assert data.images.shape == (2, 4 * 4, 8, 8, 3)
    assert data.num_dropped == 4  # from above there is one view only
    assert data.overlap == 0
    assert data.label_names == ("cup", "horse")
    assert data.factor_names == ("category", "instance", "elevation", "azimuth")
    for camera, offset in enumerate((0, 180)):
        row = data.images[camera, :, 0, 0, 0]
        np.testing.assert_array_equal(contents["kind"][row], data.labels)
        np.testing.assert_array_equal(contents["object"][row], data.factor("instance"))
        np.testing.assert_array_equal(contents["polar"][row], data.factor("elevation"))
        np.testing.assert_array_equal(contents["azimuth"][row], data.factor("azimuth") + offset)


def test_folder_blobs_and_plain_arrays_agree(tmp_path):
    contents = _arrays()
    expected = _load(_save(tmp_path / "plain.npz", contents)).images
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, array in contents.items():
        np.save(folder / f"{name}.npy", array)
    np.testing.assert_array_equal(_load(folder).images, expected)
    blobs = _save(tmp_path / "blobs.npz", contents | _encode(contents["images"]))
    np.testing.assert_array_equal(_load(blobs, images="png", offsets="offset").images, expected)
    np.savez(tmp_path / "stored.npz", **contents)
    np.testing.assert_array_equal(_load(tmp_path / "stored.npz").images, expected)


def test_channels_size_and_number_names(tmp_path):
    contents = _arrays()
    grey = contents | {"images": contents["images"][..., 0]}
    data = _load(_save(tmp_path / "grey.npz", grey), image_size=4, label_names="")
    assert data.images.shape[2:] == (4, 4, 3)
    assert data.label_names == ("0", "1")
    np.testing.assert_array_equal(data.images[..., 0], data.images[..., 2])
    data = _load(_save(tmp_path / "colour.npz", contents), channels=1)
    row, green = data.images[0, :, 0, 0, 0].astype(float), data.factor("instance")
    luma = np.array(Image.fromarray(contents["images"][10]).convert("L"))[0, 0]
    assert luma in row
    assert green.min() == 3


def test_images_of_many_sizes_need_a_size(tmp_path):
    contents = _arrays()
    images = list(contents["images"])
    images[5] = np.repeat(np.repeat(images[5], 2, axis=0), 2, axis=1)
    path = _save(tmp_path / "sizes.npz", contents | _encode(images))
    fields = {"images": "png", "offsets": "offset"}
    with pytest.raises(InputError, match=r"image 5 is \(16, 16, 3\).*image_size"):
        _load(path, **fields)
    expected = _load(_save(tmp_path / "plain.npz", contents)).images
    np.testing.assert_array_equal(_load(path, image_size=8, **fields).images, expected)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"polar": None}, r"no array 'polar', it holds images, kind"),
        ({"images": None}, "no array 'images'"),
        ({"kind": np.zeros(36)}, "'kind' is float64"),
        ({"kind": np.zeros((36, 1), int)}, r"'kind' is int64\[36, 1\]"),
        ({"object": np.array([{}] * 36)}, r"bad\.npz: object: holds Python objects"),
        ({"images": np.array([{}] * 36)}, r"bad\.npz: images: holds Python objects"),
        ({"names": np.array([{}, {}])}, r"bad\.npz: names: holds Python objects"),
        ({"azimuth": np.zeros(35, int)}, "'azimuth' has 35 entries for 36 images"),
        ({"images": np.zeros((36, 8, 8, 3))}, "'images' is float64"),
        ({"images": np.zeros((36, 8, 8, 3), np.uint16)}, "'images' is uint16"),
        ({"images": np.zeros((36, 8, 8, 4), np.uint8)}, "'images' is uint8.*1 or 3"),
        ({"images": np.zeros((0, 8, 8, 3), np.uint8)}, "'images' holds no images"),
        ({"names": np.array(["cup"])}, "category=1"),
    ],
)
def test_arrays_that_do_not_fit_are_named(tmp_path, change, message):
    contents = {k: v for k, v in (_arrays() | change).items() if v is not None}
    path = _save(tmp_path / "bad.npz", contents)
    with pytest.raises(InputError, match=message):
        _load(path)


def test_missing_paths_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.npz: no such file"):
        _load(tmp_path / "none.npz")
    with pytest.raises(InputError, match=r"images\.npy: no such file"):
        _load(tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 0.5, -1])
def test_a_truncated_archive_is_named(tmp_path, kept):
    path = _save(tmp_path / "cut.npz", _arrays())
    blob = path.read_bytes()
    path.write_bytes(blob[: int(len(blob) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(InputError, match=r"cut\.npz: 'images': damaged or truncated"):
        _load(path)


@pytest.mark.parametrize("cut", [1, 100, 6800])
def test_a_truncated_npy_file_is_named(tmp_path, cut):
    for name, array in _arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    path = tmp_path / "images.npy"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(InputError, match=r"images\.npy: .*truncated"):
        _load(tmp_path)


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path):
    path = tmp_path / "flipped.npz"
    np.savez(path, **_arrays())
    blob = bytearray(path.read_bytes())
    blob[1000] ^= 1
    path.write_bytes(blob)
    with pytest.raises(InputError, match=r"flipped\.npz: images is damaged"):
        _load(path)


def test_zeros_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "MAX_UNPACKED", 10_000)
    path = _save(tmp_path / "zeros.npz", _arrays() | {"images": np.zeros((5000, 16, 16), np.uint8)})
    with pytest.raises(InputError, match=r"zeros\.npz: \d+ bytes unpack to 12\d{5} bytes, refused"):
        _load(path)


@pytest.mark.parametrize(
    "method, twice, message",
    [
        (zipfile.ZIP_BZIP2, False, "images has compression method 12"),  # unpacked without a bound
        (zipfile.ZIP_DEFLATED, True, "two members are called 'images'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_that_numpy_does_not_write_are_refused(tmp_path, method, twice, message):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in [*_arrays().items(), *([("images", np.zeros(3))] if twice else [])]:
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())
    with pytest.raises(InputError, match=message):
        _load(path)


@pytest.mark.parametrize("shape", ["(True, 8, 8, 3)", "(-1, 8, 8, 3)", "(" * 3000, "(1e3, 3)"])
def test_headers_of_no_shape_are_refused(tmp_path, shape):
    for name, array in _arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    (tmp_path / "images.npy").write_bytes(header + bytes(8 * 8 * 3))
    with pytest.raises(InputError, match=r"images.*(no shape|damaged)"):
        _load(tmp_path)


def test_a_header_that_promises_too_much_is_refused_before_it_is_believed(tmp_path):
    for name, array in _arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    path = tmp_path / "images.npy"
    blob = path.read_bytes()
    huge = b"(9999999999, 8, 8, 3), }"
    path.write_bytes(blob.replace(b"(36, 8, 8, 3), }".ljust(len(huge)), huge))
    with pytest.raises(InputError, match=r"images\.npy: .* 7040 bytes instead of 1919999999936"):
        _load(tmp_path)


def test_damaged_images_are_named(tmp_path):
    contents = _arrays()
    encoded = _encode(contents["images"])
    start, stop = encoded["offset"][7:9]
    damaged = encoded["png"].copy()
    damaged[(start + stop) // 2] ^= 0xFF
    path = _save(tmp_path / "damaged.npz", contents | encoded | {"png": damaged})
    with pytest.raises(InputError, match="'png': image 7: "):
        _load(path, images="png", offsets="offset")


@pytest.mark.parametrize("place, value", [(0, -1), (5, 0), (36, 10**6)])
def test_offsets_out_of_order_are_refused(tmp_path, place, value):
    contents = _arrays()
    encoded = _encode(contents["images"])
    encoded["offset"][place] = value
    path = _save(tmp_path / "offsets.npz", contents | encoded)
    with pytest.raises(InputError, match="'offset' must rise"):
        _load(path, images="png", offsets="offset")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "array"},
        {"image_size": -1},
        {"channels": 2},
        {"columns": COLUMNS[:2]},
        {"columns": (*COLUMNS, COLUMNS[0])},
        {"columns": (*COLUMNS, ("elevation", "azimuth"))},
    ],
)
def test_bad_configurations_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        arrays.ArraysData(**fields)
