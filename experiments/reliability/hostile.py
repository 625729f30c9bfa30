"""The check that no file runs code or is read as data that it does not hold.

The files are pickles that would run code, headers that promise too much, and damage of all kinds.
"""

import io
import json
import pathlib
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.reliability.fixture import Figures, Fixture
from socialjepa_jax.alignment import LinearMap
from socialjepa_jax.alignment.study.files import read_latents
from socialjepa_jax.data.arrays import read_array
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.errors import InputError


@dataclass(frozen=True)
class Payload:
    """Makes a file when it is unpickled."""

    marker: str

    def __reduce__(self) -> tuple[Callable[..., None], tuple[pathlib.Path]]:
        return pathlib.Path.touch, (pathlib.Path(self.marker),)


def _header(text: str, data: bytes = bytes(64)) -> bytes:
    padded = text.encode() + b" " * (117 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + data


def _shape(shape: str, dtype: str = "'<f4'") -> bytes:
    return _header(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}")


def _npz(*members: tuple[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def arrays(marker: str) -> dict[str, bytes]:
    """Contents of `.npy` files: fault -> bytes."""
    objects = np.empty((2, 2), object)
    objects[:] = Payload(marker)
    good = _npy(np.ones((4, 3), np.float32))
    code = f"__import__('pathlib').Path({marker!r}).touch()"
    return {
        "pickled objects": _npy(objects),
        "a raw pickle": pickle.dumps(Payload(marker)),
        "a header that is code": _header(code[:110]),
        "code for a shape": _shape(f"({code[:60]},)"),
        "objects promised": _shape("(2, 2)", "'|O'"),
        "terabytes promised": _shape("(1000000, 1000000)"),
        "a shape that overflows": _shape(f"({2**62}, 8)"),
        "a negative shape": _shape("(-1, 4)"),
        "half of the data": good[: len(good) - 24],
        "more than the data": good + b"more",
        "an empty file": b"",
        "text": b"0.1 0.2\n0.3 0.4\n",
        "structured rows": _npy(np.ones((2, 2), [("a", "f4"), ("b", "f4")])),
        "strings": _npy(np.array([["a", "b"], ["c", "d"]])),
        "an unknown version": good[:6] + b"\x09" + good[7:],
    }


def archives(marker: str) -> dict[str, bytes]:
    """Contents of `.npz` files with a wrong member `x`, and of files that are no archives."""
    inner = {name: _npz(("x.npy", data)) for name, data in arrays(marker).items()}
    good = _npz(("x.npy", _npy(np.ones((4, 3), np.float32))))
    damaged = bytearray(good)
    damaged[60] ^= 255
    return inner | {
        "a raw pickle for an archive": pickle.dumps(Payload(marker)),
        "half an archive": good[: len(good) // 2],
        "a damaged archive": bytes(damaged),
        "no members": _npz(),
        "a path for a name": _npz(("../x.npy", _npy(np.ones((4, 3), np.float32)))),
    }


def others(marker: str) -> dict[str, bytes]:
    """File name -> contents, of the other formats."""
    long = json.dumps({"x": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 9**9]}}).encode()
    size = struct.pack("<Q", len(long))
    return {
        "pickle.safetensors": pickle.dumps(Payload(marker)),
        "huge.safetensors": struct.pack("<Q", 2**60) + b"{}",
        "beyond.safetensors": size + long + bytes(16),
        "short.safetensors": b"\x01",
        "pickle.parquet": pickle.dumps(Payload(marker)),
        "empty.parquet": b"PAR1PAR1",
        "weights.pt": pickle.dumps(Payload(marker)),
        "weights.pkl": pickle.dumps(Payload(marker)),
    }


def attempts(folder: pathlib.Path, marker: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Writes all hostile files; yields a name and the call that reads the file."""
    for contents, suffix, readers in (
        (arrays(marker), ".npy", (read_latents,)),
        (archives(marker), ".npz", (read_latents, _read_x, LinearMap.load)),
        (others(marker), "", (read_latents,)),
    ):
        for name, data in contents.items():
            path = folder / f"{name.replace(' ', '_')}{suffix}"
            path.write_bytes(data)
            for reader in readers:
                yield f"{reader.__qualname__}: {name}", partial(reader, path)


def _read_x(path: pathlib.Path) -> np.ndarray:
    return read_array(path, "x", "f", (2,))


def hostile_files(fixture: Fixture) -> Figures:
    """Reads every hostile file with every reader of its format, and a cache with a pickle in it."""
    folder = fixture.folder / "hostile"
    folder.mkdir()
    marker = folder / "executed"
    accepted, count = [], 0
    for name, read in attempts(folder, str(marker)):
        count += 1
        try:
            read()
            accepted.append(name)
        except (InputError, ValueError):  # ValueError: of a map
            pass
        except Exception as error:
            accepted.append(f"{name}: {type(error).__name__}")
    # A cache that is no cache is made anew, and its pickle is not loaded.
    cache = folder / "cache.npy"
    cache.write_bytes(arrays(str(marker))["pickled objects"])
    if cached_array(cache, lambda: np.ones(3)).tolist() != [1.0, 1.0, 1.0]:
        accepted.append("cached_array")
    executed = marker.exists()
    return Figures.of(
        files=(count + 1, count + 1 >= 60),
        accepted=(accepted, not accepted),
        executed=(executed, not executed),
    )
