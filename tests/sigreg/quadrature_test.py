import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import OFFICIAL, PAPER, Quadrature


def test_weights_are_the_folded_trapezoid_of_the_full_line():
    for quadrature in (OFFICIAL, PAPER, Quadrature(2.0, 2)):
        full = np.linspace(-quadrature.t_max, quadrature.t_max, 2 * quadrature.num_knots - 1)
        integrand = np.cos(full) * np.exp(-(full**2) / 2)
        folded = quadrature.weights @ np.cos(quadrature.knots)
        assert folded == pytest.approx(np.trapezoid(integrand, full), rel=1e-12)


def test_levels():
    assert OFFICIAL.null_level == pytest.approx(1.0525, abs=5e-5)
    assert PAPER.null_level == pytest.approx(1.0594, abs=5e-5)
    assert OFFICIAL.collapse_level == pytest.approx(0.40205, abs=5e-6)
    assert PAPER.collapse_level == pytest.approx(0.40892, abs=5e-6)
    assert OFFICIAL.gradient_bound == pytest.approx(7.89, abs=5e-3)


def test_bad_grids_are_named():
    for options, message in (((0.0, 17), "t_max"), ((3.0, 1), "num_knots"), ((np.nan, 9), "t_max")):
        with pytest.raises(InputError, match=message):
            Quadrature(*options)
