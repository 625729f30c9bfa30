import numpy as np
import pytest

from socialjepa_jax.alignment.study import settings
from socialjepa_jax.errors import InputError


def test_whole_groups_are_held_out():
    groups = np.random.default_rng(0).integers(0, 50, 1000)
    test = settings.hold_out(groups, 0.2, seed=1)
    assert not set(groups[test]) & set(groups[~test])
    assert 0.2 <= test.mean() < 0.25
    assert (settings.hold_out(groups, 0.2, seed=1) == test).all()
    assert (settings.hold_out(groups, 0.2, seed=2) != test).any()
    for fraction in (0.001, 0.999):
        assert settings.hold_out(np.arange(4), fraction, seed=0).sum() == 2
    for bad in (0.0, 1.0):
        with pytest.raises(InputError, match="test_fraction"):
            settings.hold_out(groups, bad, seed=0)
    for too_few in (np.zeros(5), np.arange(9) % 3):
        with pytest.raises(
            InputError, match=r"cannot be split into train and test: at least 4 are"
        ):
            settings.hold_out(too_few, 0.2, seed=0)


def test_sampled_rows_are_distinct_and_in_order():
    rows = np.arange(100, 200)
    assert settings.sample_rows(rows, 100, 0) is rows
    sampled = settings.sample_rows(rows, 30, 0)
    assert len(sampled) == 30 and (np.diff(sampled) > 0).all() and set(sampled) <= set(rows)
    assert (settings.sample_rows(rows, 30, 1) != sampled).any()
