"""The integrals against closed forms and an adaptive rule."""

import jax.numpy as jnp
import numpy as np
from scipy import integrate

from experiments.sigreg import quadrature
from socialjepa_jax.sigreg import Quadrature, epps_pulley


def test_quadrature_against_closed_forms():
    u = np.random.default_rng(0).normal(size=40) * 1.5 + 0.3

    def inside(t):
        value = quadrature.integrand(u, np.array([t]))[0]
        return value * np.exp(-(t**2) / 2)

    whole = quadrature.whole_line(u)
    np.testing.assert_allclose(integrate.quad(inside, -np.inf, np.inf)[0], whole, rtol=1e-8)
    part = integrate.quad(inside, -3, 3)[0]
    np.testing.assert_allclose(quadrature.exact(u, 3.0), part, rtol=1e-10)
    found = 40 * quadrature.trapezoid(u, Quadrature(3.0, 17))
    np.testing.assert_allclose(found, epps_pulley(jnp.asarray(u)[:, None])[0], rtol=1e-5)
