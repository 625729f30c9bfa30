"""Checks that configuration dataclasses run at construction; each names the field and its value."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any

# What NumPy raises on a broken archive beside OSError, EOFError and ValueError; it tokenizes a
# header that is no literal.
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, tokenize.TokenError)


class InputError(ValueError):
    """What the user gave cannot be used. Launchers print it as one line and exit with code 2."""


def check_positive(**fields: float) -> None:
    """Raises `InputError` unless every field is finite and > 0."""
    for name, value in fields.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name}={value} must be > 0")


def check_non_negative(**fields: float) -> None:
    """Raises `InputError` unless every field is finite and >= 0."""
    for name, value in fields.items():
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{name}={value} must be >= 0")


def check_in_range(low: float, high: float, **fields: float) -> None:
    """Raises `InputError` unless every field lies in the closed interval [low, high]."""
    for name, value in fields.items():
        if not low <= value <= high:  # also false for NaN
            raise InputError(f"{name}={value} must be in [{low}, {high}]")


def check_one_of(options: Sequence[Any], **fields: Any) -> None:
    """Raises `InputError` unless every field is one of the options."""
    for name, value in fields.items():
        if value not in options:
            raise InputError(f"{name}={value!r} must be one of {', '.join(map(repr, options))}")


def check_divides(divisor: int, **fields: int) -> None:
    """Raises `InputError` unless `divisor` divides every field."""
    for name, value in fields.items():
        if value % divisor:
            raise InputError(f"{name}={value} must be a multiple of {divisor}")


def check_inside(low: float, high: float, **fields: float) -> None:
    """Raises `InputError` unless every field lies in the open interval (low, high)."""
    for name, value in fields.items():
        if not low < value < high:  # also false for NaN
            raise InputError(f"{name}={value} must be in ({low}, {high})")


class Stopped(RuntimeError):
    """A monitor ended the run.

    Attributes:
        exit_code: of the launcher.
    """

    exit_code = 3


class Interrupted(Stopped):
    """A signal ended the run after its state was saved; the same command goes on from there."""

    exit_code = 75
