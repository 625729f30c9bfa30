"""Checks of configuration fields: the bounds, and messages with the field and its value."""

import math

import pytest

from socialjepa_jax import errors
from socialjepa_jax.errors import InputError


@pytest.mark.parametrize(
    ("check", "arguments", "valid", "invalid", "message"),
    [
        (errors.check_positive, (), (1e-9, 3), (0, -1, math.inf, math.nan), "> 0"),
        (errors.check_non_negative, (), (0, 3), (-1e-9, math.inf, math.nan), ">= 0"),
        (errors.check_in_range, (0, 1), (0, 0.5, 1), (-0.1, 1.1, math.nan), "in [0, 1]"),
        (errors.check_inside, (0, 1), (0.5,), (0, 1, math.nan), "in (0, 1)"),
        (errors.check_divides, (4,), (0, 8), (6,), "a multiple of 4"),
        (errors.check_one_of, (("a", 1),), ("a", 1), (2, -1), "one of 'a', 1"),
    ],
)
def test_a_check_accepts_valid_values_and_names_others(check, arguments, valid, invalid, message):
    for value in valid:
        check(*arguments, first=value, second=value)
    for value in invalid:
        with pytest.raises(InputError) as refusal:
            check(*arguments, first=valid[0], second=value)
        assert str(refusal.value) == f"second={value} must be {message}"


def test_sides_of_squares_and_rectangles():
    assert errors.sides(7) == (7, 7) and errors.sides((3, 5)) == (3, 5)
    for size in (0, (4, 0), (-1, 4)):
        with pytest.raises(errors.InputError, match=r"image_size=(0|-1) must be > 0"):
            errors.sides(size)
    with pytest.raises(errors.InputError, match=r"\(1, 2, 3\) must be one side or \(height"):
        errors.sides((1, 2, 3))
