"""Files in smallNORB's layout, small images: values come back, damage is named."""

import gzip
import itertools
import pathlib

import numpy as np
import pytest

from socialjepa_jax import errors
from socialjepa_jax.data import base, smallnorb
from socialjepa_jax.errors import InputError

PREFIX = {
    "training": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "testing": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
INSTANCES = {"training": (4, 6, 7), "testing": (0, 1, 2)}
SPLITS = base.Splits(test_instances=2, test_states=0.25)


def _encode(matrix: np.ndarray) -> bytes:
    """The published layout: magic, ndim, at least three dimensions, all little-endian int32."""
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[matrix.dtype.name]
    shape = list(matrix.shape) + [1] * (3 - matrix.ndim)
    header = np.array([magic, matrix.ndim, *shape], "<i4")
    return header.tobytes() + matrix.astype(matrix.dtype.newbyteorder("<")).tobytes()


def _matrices(part: str) -> dict[str, np.ndarray]:
    """Shuffled images whose pixels show category, instance, elevation, azimuth, lighting, eye."""
    grid = itertools.product(range(5), INSTANCES[part], (0, 8), (0, 16, 34), (0, 5))
    factors = np.array(list(grid), np.int32)
    np.random.default_rng(0).shuffle(factors)
    data = np.zeros((len(factors), 2, 4, 4), np.uint8)
    data[:, :, 0, :], data[:, :, 1, 0] = factors[:, None, :4], factors[:, None, 4]
    data[:, 1, 1, 1] = 1
    return {"dat": data, "cat": factors[:, 0].copy(), "info": factors[:, 1:].copy()}


def _write(folder: pathlib.Path, compress: bool = True) -> None:
    for part in PREFIX:
        for name, matrix in _matrices(part).items():
            path = folder / f"{PREFIX[part]}-{name}.mat"
            if compress:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(_encode(matrix)))
            else:
                path.write_bytes(_encode(matrix))


def _load(folder: pathlib.Path, **fields) -> base.ViewDataset:
    fields = {"image_size": 4, "splits": SPLITS} | fields
    return smallnorb.SmallNorbData(path=str(folder), **fields).load(folder)


@pytest.mark.parametrize("compress", [True, False])
def test_pairs_and_factors_come_back(tmp_path, compress):
    _write(tmp_path, compress)
    data = _load(tmp_path)
    assert data.images.shape == (2, 5 * 6 * 2 * 2, 4, 4, 1)
    assert data.factor_names == ("category", "instance", "elevation", "lighting")
    pixels = data.images[..., 0]
    for camera, azimuth in enumerate((0, 16)):
        np.testing.assert_array_equal(pixels[camera, :, 0, 0], data.labels)
        np.testing.assert_array_equal(pixels[camera, :, 0, 1], data.factor("instance"))
        np.testing.assert_array_equal(pixels[camera, :, 0, 2], data.factor("elevation"))
        assert set(pixels[camera, :, 0, 3]) == {azimuth}
        np.testing.assert_array_equal(pixels[camera, :, 1, 0], data.factor("lighting"))
    assert not pixels[:, :, 1, 1].any()  # left
    assert data.label_names == ("four-legged animal", "human", "airplane", "truck", "car")
    assert set(data.factor("instance").tolist()) == {0, 1, 2, 4, 6, 7}
    assert data.split_instance.mean() == pytest.approx(2 / 6)


def test_parts_stereo_and_size(tmp_path):
    _write(tmp_path)
    data = _load(tmp_path, parts=("testing",), stereo="both", image_size=8)
    assert data.images.shape == (2, 5 * 3 * 2 * 2, 8, 8, 2)
    assert set(data.factor("instance").tolist()) == {0, 1, 2}
    assert smallnorb.SmallNorbData(stereo="both").channels == data.image_shape[-1]
    small = _load(tmp_path, parts=("testing",), stereo="both")
    np.testing.assert_array_equal(small.images[..., 1, 1, 1], 1)
    np.testing.assert_array_equal(small.images[..., 0, :, 0], small.images[..., 0, :, 1])


def test_azimuths_are_degrees(tmp_path):
    _write(tmp_path)
    data = _load(tmp_path, protocol=base.Protocol("rig", (0, 160), (0, 180)))
    assert set(data.factor("azimuth").tolist()) == {0}
    with pytest.raises(InputError, match=r"\[0, 160, 340\]"):
        _load(tmp_path, protocol=base.Protocol("norb", (0, 20)))


def _path(folder: pathlib.Path, name: str = "dat") -> pathlib.Path:
    return folder / f"{PREFIX['testing']}-{name}.mat.gz"


def test_a_missing_file_is_named(tmp_path):
    _write(tmp_path)
    _path(tmp_path, "info").unlink()
    with pytest.raises(InputError, match=r"testing-info\.mat: no such file"):
        _load(tmp_path)


@pytest.mark.parametrize("kept", [0, 5, 30, 0.5, -8, -1])
def test_a_truncated_gzip_file_is_named(tmp_path, kept):
    _write(tmp_path)
    blob = _path(tmp_path).read_bytes()
    _path(tmp_path).write_bytes(blob[: int(len(blob) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(InputError, match=r"testing-dat\.mat\.gz: .*truncated"):
        _load(tmp_path)


@pytest.mark.parametrize("kept", [0, 7, 23, 0.5, -1])
def test_a_truncated_plain_file_is_named(tmp_path, kept):
    _write(tmp_path, compress=False)
    path = _path(tmp_path).with_suffix("")
    blob = path.read_bytes()
    path.write_bytes(blob[: int(len(blob) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(InputError, match=r"testing-dat\.mat: truncated"):
        _load(tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    _write(tmp_path)
    blob = bytearray(_path(tmp_path).read_bytes())
    blob[-6] ^= 1  # the check sum
    _path(tmp_path).write_bytes(blob)
    with pytest.raises(InputError, match=r"testing-dat\.mat\.gz: damaged"):
        _load(tmp_path)


@pytest.mark.parametrize(
    "place, value, message",
    [
        (0, 0x1E3D4C51, "magic number 0x1e3d4c51"),  # doubles
        (1, 7, "7 dimensions"),
        (2, -1, "must be > 0"),
        (2, 2**31 - 1, "bytes unpack to 68719476704 bytes, refused"),
        (2, 10, "truncated or overlong"),
        (3, 1, "truncated or overlong"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, place, value, message):
    _write(tmp_path)
    blob = bytearray(gzip.decompress(_path(tmp_path).read_bytes()))
    blob[4 * place : 4 * place + 4] = np.array(value, "<i4").tobytes()
    _path(tmp_path).write_bytes(gzip.compress(blob))
    with pytest.raises(InputError, match=message) as caught:
        _load(tmp_path)
    assert str(_path(tmp_path)) in str(caught.value)


def test_zeros_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    _write(tmp_path)
    monkeypatch.setattr(errors, "MAX_UNPACKED", 1000)
    _replace(tmp_path, "dat", np.zeros((500, 2, 32, 32), np.uint8))  # 990 times its gzip
    with pytest.raises(InputError, match=r"dat\.mat\.gz: \d+ bytes unpack to 1024000 bytes, ref"):
        _load(tmp_path)


def _replace(folder: pathlib.Path, name: str, matrix: np.ndarray) -> None:
    _path(folder, name).write_bytes(gzip.compress(_encode(matrix)))


def test_matrices_that_do_not_fit_are_refused(tmp_path):
    good = _matrices("testing")
    far_category, far_azimuth = good["cat"].copy(), good["info"].copy()
    far_category[3], far_azimuth[3, 2] = 5, 3
    for name, matrix, message in [
        ("dat", good["dat"][:, 0], "testing-dat.*uint8"),
        ("dat", good["dat"].astype(np.int32), "testing-dat.*int32"),
        ("dat", np.zeros((len(good["cat"]), 2, 6, 6), np.uint8), "differ in shape"),
        ("cat", good["cat"][:-1], "testing-cat.*does not fit"),
        ("info", good["info"][:, :3], "testing-info.*does not fit"),
        ("cat", far_category, "testing-cat.*categories"),
        ("info", far_azimuth, "testing-info.*even"),
    ]:
        _write(tmp_path)
        _replace(tmp_path, name, matrix)
        with pytest.raises(InputError, match=message):
            _load(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [{"kind": "norb"}, {"image_size": 0}, {"stereo": "right"}, {"parts": ()}, {"parts": ("all",)}],
)
def test_bad_configurations_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        smallnorb.SmallNorbData(**fields)
