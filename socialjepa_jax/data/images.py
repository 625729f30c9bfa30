"""Images on the host: strict decoding, colour channels and exact resizing of uint8 [H, W, C].

Resizing is our own because Pillow's filters weigh whole pixels only: from 18 to 8 pixels its BOX
is up to 69 grey levels away from the mean over the exact area.
"""

import functools
import io
import math
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from scipy import sparse

from socialjepa_jax.errors import ImageSize, sides

# Of the pixels that a file decodes to. 2: values of 16 bits are rounded, not cut. 3: resizing sums
# its products in another order.
VERSION = 3
_FORMATS = ("JPEG", "PNG")
_MODES = ("L", "RGB", "I;16", "RGB;16B")
_MAX_SIDE = 65_535  # of a JPEG; a PNG may claim 2^31, and resizing needs memory for each of them
_LUMA = np.array([19595, 38470, 7471], np.uint32)  # ITU-R 601 in 16-bit fixed point, as in Pillow


def decode(blob: bytes) -> np.ndarray:
    """Decodes one JPEG or PNG, grey or RGB, to uint8 [H, W, 1 or 3].

    The EXIF orientation is applied. Values v of 16 bits become v / 257, rounded.

    Raises:
        ValueError: another format or mode, damaged or truncated, or implausibly large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of notes that are damaged beside a whole image
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(blob), formats=_FORMATS) as image:
                if max(image.size) > _MAX_SIDE:
                    raise ValueError(f"{image.width} x {image.height} pixels are too large")
                image.verify()  # reads the checksums and the end of a PNG
            pixels, mode = _load(blob)
            if mode == "RGB;16B":  # of which Pillow decodes the high bytes alone
                low, _ = _load(blob, "RGB;16L")
                pixels = pixels * np.uint16(256) + low
    except UnidentifiedImageError:
        raise ValueError("cannot identify it as JPEG or PNG") from None
    except Exception as error:  # Pillow raises many types on damaged files
        raise ValueError(str(error) or type(error).__name__) from error
    if mode not in _MODES:
        raise ValueError(f"mode {mode} is neither grey (L) nor RGB")
    if pixels.dtype != np.uint8:
        pixels = ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return pixels.reshape(*pixels.shape[:2], -1)


def _load(blob: bytes, order: str = "") -> tuple[np.ndarray, str]:
    """Decodes an upright image.

    Args:
        blob: the file.
        order: Pillow's name of the stored values, in the place of the right one.

    Returns:
        The pixels, and the mode; "RGB;16B" where the stored values have 16 bits.
    """
    with Image.open(io.BytesIO(blob), formats=_FORMATS) as image:
        stored = {str(tile[3]) for tile in image.tile}
        mode = "RGB;16B" if stored == {"RGB;16B"} else image.mode
        if order:
            image.tile = [tile._replace(args=order) for tile in image.tile]
        image.load()
        ImageOps.exif_transpose(image, in_place=True)  # copies only what it turns
        return np.asarray(image), mode


def to_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """Converts uint8 [H, W, 1 or 3] to 1 or 3 channels: grey is repeated, RGB becomes luma."""
    if image.shape[-1] == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=-1)
    return ((image @ _LUMA + 0x8000) >> 16).astype(np.uint8)[..., None]


def central(image: np.ndarray, size: ImageSize) -> np.ndarray:
    """Returns the largest central part of uint8 [H, W, C] with the proportions of a size."""
    height, width = sides(size)
    rows, columns = image.shape[:2]
    part = min(rows, round(columns * height / width)), min(columns, round(rows * width / height))
    top, left = (rows - part[0]) // 2, (columns - part[1]) // 2
    return image[top : top + max(1, part[0]), left : left + max(1, part[1])]


def resize(images: np.ndarray, size: ImageSize) -> np.ndarray:
    """Resizes uint8 [..., H, W, C] to [..., *sides(size), C]; other proportions are stretched.

    A side that shrinks is averaged over exact (fractional) areas, a side that grows is interpolated
    linearly. Values are rounded to the nearest integer.
    """
    *lead, height, width, channels = images.shape
    new = sides(size)
    if (height, width) == new:
        return images
    vertical, horizontal = _resize_matrix(height, new[0]), _resize_matrix(width, new[1], channels)
    resized = np.empty((*lead, *new, channels), np.uint8)
    for index in np.ndindex(*lead):  # one at a time: floats need four times the memory
        rows = vertical @ images[index].reshape(height, -1)
        exact = horizontal @ np.ascontiguousarray(rows.T)
        exact += np.float32(0.5)
        resized[index] = exact.astype(np.uint8).T.reshape(*new, channels)  # truncates
    return resized


@functools.lru_cache(maxsize=256)  # photographs have many sizes
def _resize_matrix(old: int, new: int, channels: int = 1) -> sparse.csr_matrix:
    """Returns the weights f32[new, old] of one side; rows sum to 1.

    For several channels that alternate along the side: f32[new * channels, old * channels].
    """
    scale, row = old / new, np.arange(new)[:, None]
    if scale >= 1:  # length of the overlap of each old pixel with the new one
        low = row * scale
        pixel = np.floor(low).astype(np.int64) + np.arange(math.ceil(scale) + 1)
        weights = np.minimum(pixel + 1, low + scale) - np.maximum(pixel, low)
    else:
        center = np.clip((row + 0.5) * scale - 0.5, 0, old - 1)
        pixel = np.floor(center).astype(np.int64) + np.arange(2)
        weights = 1 - np.abs(pixel - center)
    weights = np.where(pixel < old, np.maximum(weights, 0), 0)
    weights /= weights.sum(axis=1, keepdims=True)
    places = np.minimum(pixel, old - 1)  # of weight 0 beyond the edge
    ends = np.arange(new + 1) * pixel.shape[1]
    found = (weights.astype(np.float32).ravel(), places.ravel(), ends)
    matrix = sparse.csr_matrix(found, shape=(new, old))
    if channels == 1:
        return matrix
    return sparse.kron(matrix, sparse.identity(channels, np.float32), "csr")
