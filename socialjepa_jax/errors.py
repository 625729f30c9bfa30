"""Exceptions that end a command with an exit code, and checks of configuration fields.

Configuration dataclasses run the checks when they are constructed. Every check names the field and
its value in the `InputError` that it raises.
"""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Raised by NumPy for a damaged archive, besides OSError, EOFError and ValueError: a header that is
# not a Python literal fails in the tokenizer.
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, tokenize.TokenError)


class InputError(ValueError):
    """The user's input cannot be used. Launchers print it as one line and exit with code 2."""


class Stopped(RuntimeError):
    """A monitor ended the run.

    Attributes:
        exit_code: exit code of the launcher.
    """

    exit_code = 3


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


def check_one_of(options: Sequence[Any], **fields: Any) -> None:
    """Raises `InputError` unless every field is one of the options."""
    for name, value in fields.items():
        if value not in options:
            raise InputError(f"{name}={value!r} must be one of {', '.join(map(repr, options))}")


def _check(fields: Mapping[str, Any], is_valid: Callable[[Any], bool], requirement: str) -> None:
    for name, value in fields.items():
        if not is_valid(value):
            raise InputError(f"{name}={value} must be {requirement}")
