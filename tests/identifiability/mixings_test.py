import pathlib

import jax
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import mixings
from socialjepa_jax.models.coupling import CouplingConfig

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "identifiability.npz")
PLANE = {"spiral": mixings.Spiral(), "banana": mixings.Parabola(), "sinusoid": mixings.Sinusoid()}
NVP = mixings.RealNVP(CouplingConfig(4, 3, "affine"))


@pytest.mark.parametrize("name", PLANE)
def test_matches_the_published_code(name):
    got = PLANE[name].forward({}, GOLDEN["z2"])
    np.testing.assert_allclose(got, GOLDEN[f"mix_{name}"], atol=3e-6)


@pytest.mark.parametrize("mixing", [*PLANE.values(), NVP, mixings.Identity(3)])
def test_inverse_and_log_determinant(mixing):
    params = mixing.init(jax.random.key(0))
    z_ND = jax.random.normal(jax.random.key(1), (32, mixing.dim))
    back = mixing.inverse(params, mixing.forward(params, z_ND))
    np.testing.assert_allclose(back, z_ND, atol=1e-4)
    jacobian = jax.vmap(jax.jacfwd(lambda z: mixing.forward(params, z[None])[0]))(z_ND)
    expected = np.linalg.slogdet(np.asarray(jacobian, np.float64))[1]
    np.testing.assert_allclose(mixing.log_det(params, z_ND), expected, atol=2e-4)


def test_matched_encoder_undoes_the_mixing_with_its_weights():
    params = NVP.init(jax.random.key(2))
    z_ND = jax.random.normal(jax.random.key(3), (16, 4))
    init, apply = NVP.matched()
    np.testing.assert_allclose(apply(params, NVP.forward(params, z_ND)), z_ND, atol=1e-4)
    assert jax.tree.map(np.shape, init(jax.random.key(4))) == jax.tree.map(np.shape, params)


def test_plane_mixings_refuse_other_dimensions():
    with pytest.raises(InputError, match="dim=3"):
        mixings.Spiral(3)
