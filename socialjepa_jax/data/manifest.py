"""The files of a data set with their digests, in one JSON file: made once, checked at any time.

A decoder does not notice most flipped bits: of 300 in a JPEG, 260 gave another picture without a
word. A digest notices all. `socialjepa_jax.manifest` is the command.
"""

import hashlib
import json
import pathlib

from socialjepa_jax.errors import InputError
from socialjepa_jax.records import write_json

NAME = "manifest.json"
_SCHEMA = 1


def make(folder: pathlib.Path) -> dict[str, str]:
    """Writes the manifest of all files of a folder, hidden ones and itself left out.

    Returns:
        File, relative to the folder -> SHA-256, hexadecimal.

    Raises:
        InputError: the folder holds no files, or one cannot be read, or it cannot be written.
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
    """File -> SHA-256, as `make` wrote them.

    Raises:
        InputError: there is no manifest, or it is not one.
    """
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{path}: is no JSON ({error})") from error
    digests = content.get("sha256") if isinstance(content, dict) else None
    if not isinstance(digests, dict) or content.get("schema") != _SCHEMA:
        raise InputError(f"{path}: is no manifest of schema {_SCHEMA}")
    if not all(isinstance(digest, str) and len(digest) == 64 for digest in digests.values()):
        raise InputError(f"{path}: holds what is no SHA-256")
    return digests


def check(folder: pathlib.Path) -> list[str]:
    """What is not as recorded, one line a file: changed, missing, or not in the manifest.

    Raises:
        InputError: see `read`.
    """
    recorded, present = read(folder), set(_names(folder))
    wrong = [f"{name}: is not in the manifest" for name in sorted(present - recorded.keys())]
    for name in sorted(recorded):
        if name not in present:
            wrong.append(f"{name}: is missing")
        elif _digest(folder / name) != recorded[name]:
            wrong.append(f"{name}: has changed")
    return wrong


def _names(folder: pathlib.Path) -> list[str]:
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    hidden = {path for path in paths if any(part.startswith(".") for part in path.parts)}
    return [path.as_posix() for path in paths if path not in hidden and str(path) != NAME]


def _digest(path: pathlib.Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
