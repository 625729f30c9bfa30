"""Pictures on the host: strict decoding, colour channels and exact resizing of uint8 [H, W, C]."""

import functools
import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

_FORMATS = ("JPEG", "PNG")
_LUMA = np.array([19595, 38470, 7471], np.uint32)  # ITU-R 601 in 16-bit fixed point, as in Pillow


def decode(blob: bytes) -> np.ndarray:
    """Decodes one JPEG or PNG, grey or RGB of 8 bits, to uint8 [H, W, 1 or 3].

    A photograph is turned as its EXIF orientation says.

    Raises:
        ValueError: another format or mode, damaged or truncated, or implausibly large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(blob), formats=_FORMATS) as image:
                image.verify()  # the check sums and the end of a PNG
            with Image.open(io.BytesIO(blob), formats=_FORMATS) as image:
                image.load()
                picture, mode = np.asarray(ImageOps.exif_transpose(image)), image.mode
    except UnidentifiedImageError:
        raise ValueError("cannot identify it as JPEG or PNG") from None
    except (OSError, SyntaxError, Image.DecompressionBombError, Warning) as error:
        raise ValueError(str(error)) from error
    if mode not in ("L", "RGB"):
        raise ValueError(f"mode {mode} is neither grey (L) nor RGB of 8 bits")
    return picture.reshape(*picture.shape[:2], -1)


def to_channels(picture: np.ndarray, channels: int) -> np.ndarray:
    """Turns uint8 [H, W, 1 or 3] into `channels` (1 or 3): grey is repeated, RGB becomes luma."""
    if picture.shape[-1] == channels:
        return picture
    if channels == 3:
        return np.repeat(picture, 3, axis=-1)
    return ((picture @ _LUMA + 0x8000) >> 16).astype(np.uint8)[..., None]


def resize(picture: np.ndarray, size: int) -> np.ndarray:
    """Resizes uint8 [..., H, W, C] to [..., size, size, C]; sides that differ are stretched.

    A side that shrinks is averaged over exact (fractional) areas, one that grows is interpolated
    linearly; values are rounded to the nearest integer.
    """
    *lead, height, width, channels = picture.shape
    if height == width == size:
        return picture
    rows, columns = _resize_matrix(height, size), _resize_matrix(width, size)
    resized = np.empty((*lead, size, size, channels), np.uint8)
    for index in np.ndindex(*lead):  # one at a time: floats need four times the memory
        for channel in range(channels):
            exact = rows @ picture[index][..., channel] @ columns.T
            resized[index][..., channel] = exact + np.float32(0.5)  # truncates
    return resized


@functools.lru_cache(maxsize=16)
def _resize_matrix(old: int, new: int) -> np.ndarray:
    """f32 [new, old], rows sum to 1."""
    pixel, scale = np.arange(old), old / new
    if scale >= 1:  # length of the overlap of each old pixel with each new one
        low = np.arange(new)[:, None] * scale
        weights = np.minimum(pixel + 1, low + scale) - np.maximum(pixel, low)
    else:
        center = np.clip((np.arange(new)[:, None] + 0.5) * scale - 0.5, 0, old - 1)
        weights = 1 - np.abs(pixel - center)
    weights = np.maximum(weights, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
