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
    assert 0 < settings.hold_out(np.arange(3), 0.999, seed=0).sum() < 3
    for bad in (0.0, 1.0):
        with pytest.raises(InputError, match="test_fraction"):
            settings.hold_out(groups, bad, seed=0)
    with pytest.raises(InputError, match="cannot be split"):
        settings.hold_out(np.zeros(5), 0.2, seed=0)


def test_sampled_rows_are_distinct_and_in_order():
    rows = np.arange(100, 200)
    assert settings.sample_rows(rows, 100, 0) is rows
    sampled = settings.sample_rows(rows, 30, 0)
    assert len(sampled) == 30 and (np.diff(sampled) > 0).all() and set(sampled) <= set(rows)
    assert (settings.sample_rows(rows, 30, 1) != sampled).any()
