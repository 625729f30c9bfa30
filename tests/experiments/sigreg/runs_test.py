"""The X distribution and descent on samples."""

import jax
import numpy as np
import pytest
from scipy import stats

from experiments.sigreg import runs
from socialjepa_jax.sigreg import epps_pulley


def test_an_x_has_gaussian_marginals_and_no_covariance():
    z = np.asarray(runs.x_distribution(jax.random.key(0), 20_000, 5), np.float64)
    assert stats.kstest(z[:, 0], "norm").pvalue > 1e-3
    assert stats.kstest(z[:, 1], "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.cov(z.T), np.eye(5), atol=0.05)
    np.testing.assert_array_equal(np.abs(z[:, 0]), np.abs(z[:, 1]))
    assert runs.square_correlation(z[:, :2]) > 0.99
    assert abs(runs.square_correlation(z[:, 2:4])) < 0.05


@pytest.mark.nightly
def test_descent_reduces_what_fresh_directions_see():
    start = runs.x_distribution(jax.random.key(0), 64, 4, shift=1.0)
    end, losses = runs.descend(
        start, jax.random.key(1), statistic=epps_pulley, steps=40, num_slices=8
    )
    before, after = (runs.expected_statistic(z, jax.random.key(2), 256) for z in (start, end))
    assert after < 0.5 * before
    assert losses.shape == (40,)
