"""The scaling tables show what the text says of them, save where noted."""

import numpy as np
import pytest

from socialjepa_jax.report.papers import identifiability as paper

DIMS = [2**k for k in range(1, 11)]


@pytest.fixture
def r2():
    return {
        key: np.array([paper.SCALING.value(str(dim), key) for dim in DIMS])
        for key in paper.SCALING.columns
    }


def test_the_dimensions_are_the_powers_of_two():
    assert list(paper.SCALING.rows) == [str(dim) for dim in DIMS]
    assert list(paper.SIGREG_ALIGNMENT) == DIMS


def test_sigreg_and_whitening_are_near_perfect_and_fall_slowly(r2):
    assert np.all(r2["sigreg"] > 0.9995) and np.all(r2["whiten"] > 0.999)
    assert np.all(np.diff(r2["sigreg"]) < 0)
    np.testing.assert_allclose(r2["sigreg"], r2["whiten"], atol=3e-5)


def test_infonce_is_best_at_16_and_breaks_down_from_64_on(r2):
    assert DIMS[r2["infonce"].argmax()] == 16 and r2["infonce"].max() > 0.9998
    late = {dim: value for dim, value in zip(DIMS, r2["infonce"]) if dim >= 64}
    assert {dim for dim, value in late.items() if not 0.645 <= value <= 0.725} == {
        128
    }  # text: none


def test_the_mixing_is_nonlinear_in_every_dimension(r2):
    assert np.all(r2["r2_xz"] > 0.725) and np.all(r2["r2_xz"] < 0.785)


def test_the_alignment_loss_is_near_its_optimum():
    """Latents with unit variance and rho = 0.95 have an alignment loss of 1 - rho."""
    losses = np.array(list(paper.SIGREG_ALIGNMENT.values()))
    assert np.all(losses < 0.05) and np.all(losses > 0.94 * 0.05)


def test_the_best_settings_of_the_grid_search_lie_on_its_axes():
    grid_lambda = (1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1)
    assert set(paper.GRID_BEST_LAMBDA) <= set(grid_lambda)
    assert set(paper.GRID_BEST_RHO) <= {0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99}
