"""Exceptions that end a command with an exit code, and checks of fields, arrays and files.

Configuration dataclasses run the checks when they are constructed. Every check names the field and
its value in the `InputError` that it raises.
"""

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# Raised for a damaged archive, besides OSError, EOFError and ValueError: a header that is not a
# Python literal fails in the tokenizer or the parser, and one that is another literal in NumPy;
# encryption, an unknown compression and deep nesting are RuntimeErrors; sizes that no machine has
# are the last two.
DAMAGED_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    struct.error,
    SyntaxError,
    LookupError,
    TypeError,
    RuntimeError,
    MemoryError,
    OverflowError,
)

MAX_UNPACKED = 1 << 28  # bytes that every file may unpack to
MAX_RATIO = 256  # above them, bytes for every byte of the file; deflate reaches 1032, dSprites 113

_SHOWN = 100  # letters of a value in a message

ImageSize = int | tuple[int, int]  # side of a square, or (height, width), pixels


class InputError(ValueError):
    """The user's input cannot be used. Launchers print it as one line and exit with code 2."""


class Stopped(RuntimeError):
    """A monitor ended the run.

    Attributes:
        exit_code: exit code of the launcher.
    """

    exit_code = 3


class GateClosed(Stopped):
    """The answer that a gate asks for is no. The results are written."""

    exit_code = 4


class Interrupted(Stopped):
    """A signal ended the run after its state was saved. The same command resumes it."""

    exit_code = 75


def check_positive(**fields: float) -> None:
    """Raises `InputError` unless every field is finite and > 0."""
    _check(fields, lambda value: math.isfinite(value) and value > 0, "> 0")


def check_non_negative(**fields: float) -> None:
    """Raises `InputError` unless every field is finite and >= 0."""
    _check(fields, lambda value: math.isfinite(value) and value >= 0, ">= 0")


def check_in_range(low: float, high: float, **fields: float) -> None:
    """Raises `InputError` unless every field lies in the closed interval [low, high]."""
    _check(fields, lambda value: low <= value <= high, f"in [{low}, {high}]")


def check_inside(low: float, high: float, **fields: float) -> None:
    """Raises `InputError` unless every field lies in the open interval (low, high)."""
    _check(fields, lambda value: low < value < high, f"in ({low}, {high})")


def check_divides(divisor: int, **fields: int) -> None:
    """Raises `InputError` unless `divisor` divides every field."""
    _check(fields, lambda value: value % divisor == 0, f"a multiple of {divisor}")


def sides(image_size: ImageSize) -> tuple[int, int]:
    """Returns (height, width) of images; one number is the side of a square.

    Raises:
        InputError: a side is not positive, or there are not one or two.
    """
    both = image_size if isinstance(image_size, tuple) else (image_size, image_size)
    if len(both) != 2:
        raise InputError(f"image_size={image_size} must be one side or (height, width)")
    for side in both:
        check_positive(image_size=side)
    return both


def check_one_of(options: Sequence[Any], **fields: Any) -> None:
    """Raises `InputError` unless every field is one of the options."""
    for name, value in fields.items():
        if value not in options:
            one_of = ", ".join(map(repr, options))
            raise InputError(f"{name}={shown(value)} must be one of {one_of}")


def shown(value: Any) -> str:
    """Returns the value for a message: its `repr`, cut where it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply; more digits than Python prints
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def check_unpacked(path: object, unpacked: int, packed: int) -> None:
    """Raises `InputError` if a compressed file expands like no data do.

    Every reader of compressed files calls this before it unpacks, or while it does.

    Args:
        path: file, named in the message.
        unpacked: size of its contents in bytes.
        packed: size of the file in bytes.
    """
    if unpacked > max(MAX_UNPACKED, MAX_RATIO * packed):
        raise InputError(f"{path}: {packed} bytes unpack to {unpacked} bytes, refused")


def as_array(value: Any, name: str, dtype: Any = None) -> np.ndarray:
    """Returns the value as a plain array, not copied where possible.

    Raises:
        InputError: if entries are masked: what they hold is no data.
    """
    parts = value if isinstance(value, list | tuple) else (value,)
    masked = sum(int(np.ma.count_masked(part)) for part in parts if np.ma.isMaskedArray(part))
    if masked:
        raise InputError(f"{name} has {masked} masked entries; fill them or drop their rows")
    return np.asarray(value, dtype)


def expand_user(path: str, name: str) -> str:
    """Returns a path with the home folder in place of a leading `~` or `~user`.

    Raises:
        InputError: if there is no such user.
    """
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise InputError(f"{name}={path}: no such user; a file of this name is ./{path}")
    return expanded


def _check(fields: Mapping[str, Any], is_valid: Callable[[Any], bool], requirement: str) -> None:
    for name, value in fields.items():
        if not is_valid(value):
            raise InputError(f"{name}={value} must be {requirement}")
