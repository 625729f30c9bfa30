"""Files that lie: pickles that would run code, headers that promise too much, damage of all kinds.

Nothing of the project may run code from a file, or return an array that is not in it.
"""

import io
import json
import os
import pathlib
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import LinearMap
from socialjepa_jax.alignment.study.files import read_latents
from socialjepa_jax.data.arrays import read_array
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.errors import InputError
from socialjepa_jax.running.checkpoint import Checkpoints


@dataclass(frozen=True)
class Payload:
    """Makes a file when it is unpickled."""

    marker: str

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return pathlib.Path.touch, (pathlib.Path(self.marker),)  # type: ignore[return-value]


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
    """Contents of `.npy` files, by what is wrong with them."""
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
    """Contents of `.npz` files whose member `x` is wrong, and of some that are no archives."""
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
    """File name -> content, of the other formats."""
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
    """All hostile files, each with the call that reads it: (what, call)."""
    for name, data in arrays(marker).items():
        path = folder / f"{name.replace(' ', '_')}.npy"
        path.write_bytes(data)
        yield f"read_latents: {name}", lambda path=path: read_latents(path)  # type: ignore[misc]
    for name, data in archives(marker).items():
        path = folder / f"{name.replace(' ', '_')}.npz"
        path.write_bytes(data)
        yield f"read_latents: {name}", lambda path=path: read_latents(path)  # type: ignore[misc]
        yield f"read_array: {name}", lambda path=path: read_array(path, "x", "f", (2,))  # type: ignore[misc]
        yield f"LinearMap: {name}", lambda path=path: LinearMap.load(path)  # type: ignore[misc]
    for name, data in others(marker).items():
        path = folder / name
        path.write_bytes(data)
        yield f"read_latents: {name}", lambda path=path: read_latents(path)  # type: ignore[misc]


def try_all(folder: pathlib.Path) -> tuple[int, list[str], bool]:
    """Reads every hostile file.

    Returns:
        How many there were, those that were accepted or died of another error than `InputError`
        (or `ValueError` of a map), and whether any code ran.
    """
    folder.mkdir()
    marker = folder / "executed"
    count, wrong = 0, []
    for name, call in attempts(folder, str(marker)):
        count += 1
        try:
            call()
            wrong.append(f"{name}: accepted")
        except (InputError, ValueError):
            pass
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}")
    # A cache that was tampered with is made anew, and its pickle is not touched.
    cache = folder / "cache.npy"
    cache.write_bytes(arrays(str(marker))["pickled objects"])
    if cached_array(cache, lambda: np.ones(3)).tolist() != [1.0, 1.0, 1.0]:
        wrong.append("cached_array: accepted")
    return count + 1, wrong, marker.exists()


def flip_a_bit(path: pathlib.Path, rng: np.random.Generator) -> None:
    """Flips one random bit of a file."""
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    path.write_bytes(bytes(data))


def _largest(folder: pathlib.Path) -> pathlib.Path:
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def _rewrite(path: pathlib.Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def _manifest(step: pathlib.Path) -> pathlib.Path:
    return next(p for p in (step / "manifest").rglob("*") if p.is_file())


# What can happen to a checkpoint's folder; after each of them it must not be used.
DAMAGES: dict[str, Callable[[pathlib.Path], object]] = {
    "largest file: middle bit flipped": lambda s: _rewrite(
        _largest(s), lambda d: d[: len(d) // 2] + bytes([d[len(d) // 2] ^ 1]) + d[len(d) // 2 + 1 :]
    ),
    "largest file: cut in half": lambda s: os.truncate(
        _largest(s), _largest(s).stat().st_size // 2
    ),
    "largest file: empty": lambda s: _largest(s).write_bytes(b""),
    "largest file: zeros": lambda s: _rewrite(_largest(s), lambda d: bytes(len(d))),
    "largest file: gone": lambda s: _largest(s).unlink(),
    "manifest: gone": lambda s: _manifest(s).unlink(),
    "manifest: cut in half": lambda s: _rewrite(_manifest(s), lambda d: d[: len(d) // 2]),
    "manifest: not JSON": lambda s: _manifest(s).write_bytes(b"\x80\x04\x95"),
    "manifest: a digest altered": lambda s: _rewrite(
        _manifest(s), lambda d: d.replace(b'"seal": "', b'"seal": "0')
    ),
    "every file: cut in half": lambda s: [
        os.truncate(p, p.stat().st_size // 2) for p in list(s.rglob("*")) if p.is_file()
    ],
}


def restored_digests(folder: pathlib.Path, abstract: object) -> dict[str, str] | None:
    """Digests of what a folder of checkpoints restores to; None if all is refused."""
    from socialjepa_jax.running.checkpoint import digests

    with Checkpoints(folder, 9) as checkpoints:
        try:
            return digests(checkpoints.restore(abstract))
        except InputError:
            return None
