"""Stratified choices and the limits of assembled bodies."""

import numpy as np
import pytest

from socialjepa_jax.data.toys import parts


def test_choices_of_ten_instances_take_ten_different_tenths():
    draws = [parts.Draws(seed=1, category=2, instance=i) for i in range(20)]
    for _ in range(5):
        values = np.array([draw.uniform(0, 10) for draw in draws])
        for block in (values[:10], values[10:]):
            assert sorted(block.astype(int)) == list(range(10))


def test_too_many_parts_are_refused():
    part = parts.Part("box", (0, 0, 0), (1, 1, 1), np.ones(3))
    with pytest.raises(ValueError, match="13 parts of kind box"):
        parts.assemble([[part] * 13])
