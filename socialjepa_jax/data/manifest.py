"""Manifest of a dataset: a JSON file with the SHA-256 of every file in its folder.

Decoders accept most flipped bits: of 300 in a JPEG, 260 gave another image and no error. A digest
detects all of them. These are the functions; the command is `python -m socialjepa_jax.manifest`.
"""

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import write_json

NAME = "manifest.json"
_SCHEMA = 1


def make(folder: pathlib.Path) -> dict[str, str]:
    """Writes the manifest of all files of a folder except hidden ones and the manifest.

    Returns:
        File name relative to the folder -> SHA-256, hexadecimal.

    Raises:
        InputError: the folder holds no files, a file cannot be read, or the manifest cannot be
            written.
    """
    digests = {name: _digest(folder / name) for name in _names(folder)}
    if not digests:
        raise InputError(f"{folder}: no such folder, or there are no files in it")
    try:
        write_json(folder / NAME, {"schema": _SCHEMA, "sha256": digests})
    except OSError as error:
        raise InputError(f"{folder / NAME}: cannot be written ({error.strerror})") from error
    return digests


def read(folder: pathlib.Path) -> dict[str, str]:
    """Reads the manifest of a folder: file name -> SHA-256, as `make` wrote it.

    Raises:
        InputError: there is no manifest, or the file is not a manifest.
    """
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON ({error})") from error
    digests = content.get("sha256") if isinstance(content, dict) else None
    if not isinstance(digests, dict) or content.get("schema") != _SCHEMA:
        raise InputError(f"{path}: is no manifest of schema {_SCHEMA}")
    if not all(re.fullmatch("[0-9a-f]{64}", str(digest)) for digest in digests.values()):
        raise InputError(f"{path}: holds what is no SHA-256")
    return digests


def check(folder: pathlib.Path) -> list[str]:
    """Compares a folder with its manifest.

    Returns:
        One line for every file that changed, is missing, or is not in the manifest.

    Raises:
        InputError: there is no manifest, or a file cannot be read.
    """
    recorded, present = read(folder), set(_names(folder))
    wrong = [f"{name}: is not in the manifest" for name in sorted(present - recorded.keys())]
    for name in sorted(recorded):
        if name not in present:
            wrong.append(f"{name}: is missing")
        elif _digest(folder / name) != recorded[name]:
            wrong.append(f"{name}: has changed")
    return wrong


def verify(paths: Sequence[str], stamp: str, cache: pathlib.Path) -> None:
    """Checks files of one folder against its manifest; each is read once for a stamp.

    Args:
        paths: the files.
        stamp: digest of their sizes and times.
        cache: folder of the digests that were found.

    Raises:
        InputError: there is no manifest, or a file is not in it or not as it says.
    """
    folder = pathlib.Path(paths[0]).parent
    recorded = read(folder)
    if unknown := [path for path in paths if os.path.basename(path) not in recorded]:
        raise InputError(f"{unknown[0]}: is not in {NAME}")

    def digests() -> np.ndarray:
        return np.array([_digest(pathlib.Path(path)) for path in paths])

    for path, digest in zip(paths, cached_array(cache / f"digests_{stamp[:32]}.npy", digests)):
        if digest != recorded[os.path.basename(path)]:
            raise InputError(f"{path}: is not the file of the manifest (its SHA-256 differs)")


def _names(folder: pathlib.Path) -> list[str]:
    try:
        paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error
    hidden = {path for path in paths if any(part.startswith(".") for part in path.parts)}
    return [path.as_posix() for path in paths if path not in hidden and str(path) != NAME]


def _digest(path: pathlib.Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
