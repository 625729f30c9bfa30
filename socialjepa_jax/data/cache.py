"""Cache of arrays on disk: written atomically, verified on every read, without pickle.

A cache file is a `.npy` file followed by its 32-byte SHA-256; `numpy.load` reads it too.
"""

import hashlib
import io
import pathlib
import uuid
from collections.abc import Callable

import numpy as np
from absl import logging

_DIGEST_BYTES = hashlib.sha256().digest_size


def cached_array(path: pathlib.Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Returns the array in a cache file, or makes and stores it if no intact file exists.

    A damaged or truncated file is replaced after one warning. If the folder cannot be written, the
    array is returned after a warning and not cached.

    Args:
        path: cache file; its name must depend on everything that the array depends on.
        make: function that makes the array.

    Returns:
        The array.
    """
    stored = _read(path)
    if stored is not None:
        return stored
    array = make()
    try:
        _write(path, array)
    except OSError as error:
        logging.warning("%s: cannot be cached (%s)", path, error.strerror)
    return array


def _read(path: pathlib.Path) -> np.ndarray | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        logging.warning("%s: cannot be read (%s), made anew", path, error.strerror)
        return None
    content = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(content).digest() != data[-_DIGEST_BYTES:]:
        logging.warning("%s: damaged or truncated, made anew", path)
        return None
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError):
        logging.warning("%s: holds no array, made anew", path)
        return None


def _write(path: pathlib.Path, array: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with temporary.open("xb") as file:
            file.write(buffer.getbuffer())
            file.write(hashlib.sha256(buffer.getbuffer()).digest())
        temporary.replace(path)  # atomic: readers see the old file or the new one
    finally:
        temporary.unlink(missing_ok=True)
