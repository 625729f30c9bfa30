"""Images on the host: strict decoding, colour channels and exact resizing of uint8 [H, W, C].

Resizing is our own because Pillow's filters weigh whole pixels only: from 18 to 8 pixels its BOX
is up to 69 grey levels away from the mean over the exact area.
"""

import functools
import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

_FORMATS = ("JPEG", "PNG")
_LUMA = np.array([19595, 38470, 7471], np.uint32)  # ITU-R 601 in 16-bit fixed point, as in Pillow


def decode(blob: bytes) -> np.ndarray:
    """Decodes one JPEG or PNG, grey or RGB of 8 bits, to uint8 [H, W, 1 or 3].

    The EXIF orientation is applied.

    Raises:
        ValueError: another format or mode, damaged or truncated, or implausibly large.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(blob), formats=_FORMATS) as image:
                image.verify()  # reads the checksums and the end of a PNG
            with Image.open(io.BytesIO(blob), formats=_FORMATS) as image:
                image.load()
                pixels, mode = np.asarray(ImageOps.exif_transpose(image)), image.mode
    except UnidentifiedImageError:
        raise ValueError("cannot identify it as JPEG or PNG") from None
    except (OSError, SyntaxError, Image.DecompressionBombError, Warning) as error:
        raise ValueError(str(error)) from error
    if mode not in ("L", "RGB"):
        raise ValueError(f"mode {mode} is neither grey (L) nor RGB of 8 bits")
    return pixels.reshape(*pixels.shape[:2], -1)


def to_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """Converts uint8 [H, W, 1 or 3] to 1 or 3 channels: grey is repeated, RGB becomes luma."""
    if image.shape[-1] == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=-1)
    return ((image @ _LUMA + 0x8000) >> 16).astype(np.uint8)[..., None]


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Resizes uint8 [..., H, W, C] to [..., size, size, C]; unequal sides are stretched.

    A side that shrinks is averaged over exact (fractional) areas, a side that grows is interpolated
    linearly. Values are rounded to the nearest integer.
    """
    *lead, height, width, channels = images.shape
    if height == width == size:
        return images
    vertical, horizontal = _resize_matrix(height, size), _resize_matrix(width, size)
    resized = np.empty((*lead, size, size, channels), np.uint8)
    for index in np.ndindex(*lead):  # one at a time: floats need four times the memory
        for channel in range(channels):
            exact = vertical @ images[index][..., channel] @ horizontal.T
            resized[index][..., channel] = exact + np.float32(0.5)  # truncates
    return resized


@functools.lru_cache(maxsize=16)
def _resize_matrix(old: int, new: int) -> np.ndarray:
    """Returns the weights f32[new, old] of one side; rows sum to 1."""
    pixel, scale = np.arange(old), old / new
    if scale >= 1:  # length of the overlap of each old pixel with each new one
        low = np.arange(new)[:, None] * scale
        weights = np.minimum(pixel + 1, low + scale) - np.maximum(pixel, low)
    else:
        center = np.clip((np.arange(new)[:, None] + 0.5) * scale - 0.5, 0, old - 1)
        weights = 1 - np.abs(pixel - center)
    weights = np.maximum(weights, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
