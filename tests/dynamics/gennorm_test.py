import pathlib

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from socialjepa_jax.dynamics import gennorm

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "identifiability.npz")


@pytest.mark.parametrize("alpha", 2.0 ** np.arange(-3, 6))
def test_scale_matches_the_published_code(alpha):
    expected = GOLDEN[f"gennorm_scale_{alpha if alpha < 1 else float(alpha)}"]
    np.testing.assert_allclose(gennorm.gennorm_scale(alpha), expected, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.125, 1.0, 4.0, 32.0])
def test_warp_is_the_quantile_map(alpha):
    z = np.concatenate([-np.linspace(0.01, 5, 40), np.linspace(0.013, 5.5, 40)])
    law = stats.gennorm(alpha, scale=gennorm.gennorm_scale(alpha))
    expected = np.where(z < 0, law.ppf(special.ndtr(z)), law.isf(special.ndtr(-z)))
    got = gennorm.warp(jnp.asarray(gennorm.warp_table(alpha)), jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
