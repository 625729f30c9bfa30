import math

import jax
import numpy as np
import pytest

from socialjepa_jax.dynamics.langevin import Langevin
from socialjepa_jax.dynamics.stationary import Copula
from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import hermite, spectrum


def test_gaussian_spectrum_is_hermites():
    found = spectrum.gennorm_spectrum(2.0, 5)
    np.testing.assert_allclose(found.rates, np.arange(5), atol=1e-4)
    inner = np.abs(found.nodes) < 3
    for k in range(4):
        sign = np.sign(found.functions[k][-1])
        expected = hermite.hermite(found.nodes, 3)[k] * sign
        np.testing.assert_allclose(found.functions[k][inner], expected[inner], atol=1e-3)
    assert found.non_affinity < 1e-6


def test_uniform_limit_is_the_cosine_between_reflecting_walls():
    edges = np.linspace(-math.sqrt(3), math.sqrt(3), 2001)
    found = spectrum.sturm_liouville(lambda z: np.zeros_like(z), edges, 4, diffusion=0.5)
    expected = 0.5 * (np.arange(4) * math.pi / (2 * math.sqrt(3))) ** 2
    np.testing.assert_allclose(found.rates, expected, rtol=1e-5, atol=1e-9)
    wave = math.sqrt(2) * np.sin(math.pi * found.nodes / (2 * math.sqrt(3)))
    np.testing.assert_allclose(found.functions[1], wave, atol=1e-5)
    np.testing.assert_allclose(found.non_affinity, 1 - 96 / math.pi**4, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.5, 4.0, 16.0])
def test_first_eigenfunction_is_monotone_and_affine_for_the_gaussian_only(alpha):
    found = spectrum.gennorm_spectrum(alpha)
    bulk = np.abs(found.nodes) < 3
    assert (np.diff(found.functions[1][bulk]) > 0).all()
    assert found.non_affinity > 1e-4
    gram = found.functions @ (found.mass[:, None] * found.functions.T)
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-9)


def test_drawn_langevin_pairs_decorrelate_as_the_spectrum_says():
    alpha, rho, num = 8.0, 0.7, 20_000
    process = Langevin(1, substeps=64)
    views = process.views(process.params(rho, alpha), jax.random.key(0), num)
    found = spectrum.gennorm_spectrum(alpha)
    first, second = (found.evaluate(1, np.asarray(v)[:, 0]) for v in views)
    expected = found.eigenvalues(-math.log(rho))[1]
    np.testing.assert_allclose(np.mean(first * second), expected, atol=5 / math.sqrt(num))


def test_drawn_copula_pairs_decorrelate_as_the_spectrum_says():
    alpha, rho, num = 0.5, 0.7, 20_000
    process = Copula(1)
    views = process.views(process.params(rho, alpha), jax.random.key(1), num)
    found = spectrum.copula_spectrum(alpha)
    for k in (1, 2):
        first, second = (found.evaluate(k, np.asarray(v)[:, 0]) for v in views)
        np.testing.assert_allclose(
            np.mean(first * second), rho**k, atol=5 * np.std(first * second) / math.sqrt(num)
        )


def test_oracle_of_the_isotropic_gaussian_world_is_linear():
    gaussian = spectrum.copula_spectrum(2.0)
    found = spectrum.oracle([gaussian] * 3, [0.05] * 3, 3)
    assert {tuple(row) for row in found.orders} == {(1, 0, 0), (0, 1, 0), (0, 0, 1)}
    np.testing.assert_allclose(found.eigenvalues, math.exp(-0.05))
    np.testing.assert_allclose(found.r2, 1.0, atol=1e-6)
    np.testing.assert_allclose(spectrum.oracle([gaussian] * 4, [0.1] * 4, 1).r2, 0.25, atol=1e-6)
    # One feature more than latents: one of the ten of degree two, which adds nothing linear.
    np.testing.assert_allclose(spectrum.oracle([gaussian] * 4, [0.1] * 4, 5).r2, 1.0, atol=1e-6)


@pytest.mark.parametrize(("ratio", "recovered"), [(1.9, True), (2.1, False)])
def test_oracle_knows_the_anisotropy_threshold(ratio, recovered):
    """Both latents are found if and only if max K < 2 min K (appendix on SFA)."""
    gaussian = spectrum.copula_spectrum(2.0)
    found = spectrum.oracle([gaussian] * 2, [0.1, 0.1 * ratio], 2)
    np.testing.assert_allclose(found.r2_per_latent, [1.0, float(recovered)], atol=1e-6)
    assert tuple(found.orders[1]) == ((0, 1) if recovered else (2, 0))


def test_oracle_of_a_non_gaussian_world_is_the_first_eigenfunction():
    one = spectrum.gennorm_spectrum(16.0)
    found = spectrum.oracle([one] * 2, [0.05] * 2, 2)
    np.testing.assert_allclose(found.r2, 1 - one.non_affinity, atol=1e-12)
    assert found.r2 < 1 - 1e-3


def test_refuses_more_features_than_the_spectra_hold():
    with pytest.raises(InputError, match="num_features=2"):
        spectrum.oracle([spectrum.copula_spectrum(2.0, num_modes=2)], [0.1], 2)
