"""Decoding refuses damage; channels and sizes are exact."""

import io
import itertools
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from socialjepa_jax.data import images as images_lib


def _image(height: int = 24, width: int = 32) -> np.ndarray:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (height // 8, width // 8, 3))
    return np.kron(small, np.ones((8, 8, 1))).astype(np.uint8)


def _encode(image: Image.Image, form: str) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form)
    return stream.getvalue()


def test_decodes_what_pillow_encodes():
    image = _image()
    colours, grey = Image.fromarray(image), Image.fromarray(image[..., 0])
    np.testing.assert_array_equal(images_lib.decode(_encode(colours, "PNG")), image)
    np.testing.assert_array_equal(images_lib.decode(_encode(grey, "PNG")), image[..., :1])
    assert images_lib.decode(_encode(colours, "JPEG")).shape == image.shape


@pytest.mark.parametrize("form, tail", [("JPEG", 1), ("PNG", 5)])
def test_an_image_cut_anywhere_is_refused(form, tail):
    blob = _encode(Image.fromarray(_image()), form)
    for length in range(0, len(blob) - tail + 1, 7):
        with pytest.raises(ValueError):
            images_lib.decode(blob[:length])
    with pytest.raises(ValueError):  # PNG: all but the last check sum, of no data
        images_lib.decode(blob[:-tail])


def test_other_formats_modes_and_bombs_are_refused(monkeypatch):
    image = Image.fromarray(_image())
    with pytest.raises(ValueError, match="cannot identify"):
        images_lib.decode(_encode(image, "GIF"))
    with pytest.raises(ValueError, match="mode RGBA"):
        images_lib.decode(_encode(image.convert("RGBA"), "PNG"))
    with pytest.raises(ValueError, match="65536 x 1 pixels are too large"):
        images_lib.decode(_encode(Image.new("L", (65_536, 1)), "PNG"))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 24 * 32 - 1)
    with pytest.raises(ValueError, match="decompression bomb"):
        images_lib.decode(_encode(image, "PNG"))


def _sixteen_bits(values: np.ndarray) -> bytes:
    """A PNG of grey or RGB values of 16 bits, rows predicted from those above them."""
    height, width, channels = values.shape
    rows = values.astype(">u2").view(np.uint8).reshape(height, -1)
    up = np.diff(rows, axis=0, prepend=np.uint8(0)[None, None].repeat(rows.shape[1], 1))
    lines = np.concatenate([np.full((height, 1), 2, np.uint8), up], axis=1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + zlib.crc32(name + data).to_bytes(4)

    header = struct.pack(">IIBBBBB", width, height, 16, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(lines.tobytes()), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(itertools.starmap(chunk, chunks.items()))


@pytest.mark.parametrize("channels", [1, 3])
def test_values_of_16_bits_are_scaled(channels):
    values = np.random.default_rng(0).integers(0, 65_536, (40, 50, channels))
    values[0, :4, 0] = [0, 65_535, 128, 129]  # halves of a level around 128.5
    found = images_lib.decode(_sixteen_bits(values))
    np.testing.assert_array_equal(found, np.rint(values / 257))
    assert found[0, :4, 0].tolist() == [0, 255, 0, 1]


def test_damage_of_any_kind_is_a_value_error():
    """Pillow raises IndexError, TypeError and struct.error on damaged notes of the camera."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    stream = io.BytesIO()
    Image.fromarray(_image()).save(stream, "JPEG", exif=exif)
    blob, rng = stream.getvalue(), np.random.default_rng(0)
    causes = set()
    for _ in range(1500):
        damaged = bytearray(blob)
        for place in rng.integers(0, 80, 2):
            damaged[place] = rng.integers(256)
        try:
            images_lib.decode(bytes(damaged))
        except ValueError as error:
            causes.add(type(error.__cause__))
    assert causes & {IndexError, TypeError, struct.error}  # or none of them was tried


def test_channels_are_pillows():
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    luma = np.asarray(Image.fromarray(image).convert("L"))
    np.testing.assert_array_equal(images_lib.to_channels(image, 1)[..., 0], luma)
    grey = images_lib.to_channels(image[..., :1], 3)
    np.testing.assert_array_equal(grey, np.repeat(image[..., :1], 3, axis=-1))
    assert images_lib.to_channels(image, 3) is image


def test_shrinking_averages_exact_areas():
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 12, 18, 2), np.uint8)
    halved = images.reshape(2, 3, 6, 2, 6, 3, 2).mean(axis=(3, 5))
    np.testing.assert_allclose(images_lib.resize(images, 6), halved, atol=0.501)
    # 18 -> 8 by way of a grid that both divide.
    image = images[0, 0].astype(float)
    fine = np.repeat(np.repeat(image, 2, axis=0), 4, axis=1)
    expected = fine.reshape(8, 3, 8, 9, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(images_lib.resize(images[0, 0], 8), expected, atol=0.501)


def test_growing_is_pillows_bilinear():
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 1), np.uint8)
    for size in (31, 60):
        resized = images_lib.resize(image, size)[..., 0].astype(float)
        larger = Image.fromarray(image[..., 0].astype(np.float32)).resize(
            (size, size), Image.Resampling.BILINEAR
        )
        np.testing.assert_allclose(resized, np.asarray(larger), atol=0.501)


def test_extreme_values_and_equal_sizes_survive():
    white = np.full((7, 7, 1), 255, np.uint8)
    for size in (3, 5, 11, 64):
        assert (images_lib.resize(white, size) == 255).all()
    assert images_lib.resize(white, 7) is white


@pytest.mark.parametrize(
    ("height", "width", "size", "rows", "columns"),
    [(9, 16, 5, slice(0, 9), slice(3, 12)), (16, 9, 5, slice(3, 12), slice(0, 9)),
     (9, 16, (2, 8), slice(2, 6), slice(0, 16)), (9, 16, (9, 16), slice(0, 9), slice(0, 16)),
     (1, 5, (4, 1), slice(0, 1), slice(2, 3))],
)  # fmt: skip
def test_the_central_part_has_the_proportions_of_the_size(height, width, size, rows, columns):
    image = np.arange(height * width, dtype=np.uint8).reshape(height, width, 1)
    np.testing.assert_array_equal(images_lib.central(image, size), image[rows, columns])


def test_rectangles_are_means_of_areas():
    image = np.random.default_rng(0).integers(0, 256, (6, 12, 3), np.uint8)
    expected = image.reshape(3, 2, 4, 3, 3).mean((1, 3))
    found = images_lib.resize(image, (3, 4))
    assert found.shape == (3, 4, 3) and np.abs(found - expected).max() <= 0.51
    np.testing.assert_array_equal(images_lib.resize(image, (6, 12)), image)
