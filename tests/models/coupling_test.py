import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.coupling import Coupling, CouplingConfig
from socialjepa_jax.models.functional import functional

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "identifiability.npz")
SIZES = [(2, 8), (8, 4), (64, 4)]


@pytest.mark.parametrize(("dim", "layers"), SIZES)
def test_mixing_and_matched_encoder_agree_with_the_published_code(dim, layers):
    _, apply = functional(lambda rngs: Coupling(CouplingConfig(dim, layers), rngs))
    name = f"nvp_N{dim}_L{layers}"
    mixing = {"shift": {"kernel": jnp.asarray(GOLDEN[f"{name}_Ws"])}}
    encoder = {"shift": {"kernel": jnp.asarray(GOLDEN[f"{name}_encWs"])}}
    z, x = GOLDEN[f"{name}_z"], GOLDEN[f"{name}_x"]
    np.testing.assert_allclose(apply(mixing, z), x, atol=2e-6)
    np.testing.assert_allclose(apply(encoder, x, method="inverse"), GOLDEN[f"{name}_h"], atol=2e-6)


@pytest.mark.parametrize("kind", ["additive", "affine"])
@pytest.mark.parametrize("dim", [2, 6])
def test_inverse_and_log_determinant(kind, dim):
    init, apply = functional(
        lambda rngs: Coupling(CouplingConfig(dim, 3, kind, init="normal", gain=1.0), rngs)
    )
    params = init(jax.random.key(0))
    z_BD = jax.random.normal(jax.random.key(1), (16, dim))
    np.testing.assert_allclose(
        apply(params, apply(params, z_BD), method="inverse"), z_BD, atol=2e-5
    )
    jacobian = jax.vmap(jax.jacfwd(lambda z: apply(params, z[None])[0]))(z_BD)
    expected = np.linalg.slogdet(np.asarray(jacobian, np.float64))[1]
    np.testing.assert_allclose(apply(params, z_BD, method="log_det"), expected, atol=1e-5)
    assert (np.abs(expected).max() > 0.1) == (kind == "affine")


def test_orthogonal_kernels_have_the_gain():
    init, _ = functional(lambda rngs: Coupling(CouplingConfig(8), rngs))
    kernel_LHH = np.asarray(init(jax.random.key(4))["shift"]["kernel"])
    gram = np.einsum("lij,lik->ljk", kernel_LHH, kernel_LHH)
    np.testing.assert_allclose(gram, np.tile(4.0 * np.eye(4), (4, 1, 1)), atol=1e-5)


def test_refuses_impossible_sizes():
    with pytest.raises(InputError, match="dim=3"):
        CouplingConfig(3)
    with pytest.raises(InputError, match="kind='glow'"):
        CouplingConfig(2, kind="glow")
