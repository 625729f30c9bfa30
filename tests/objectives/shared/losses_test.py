import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.objectives.shared import losses
from socialjepa_jax.sharding import Reduce
from socialjepa_jax.sigreg import sigreg

GOLDEN = np.load(pathlib.Path(__file__).parents[2] / "golden" / "identifiability.npz")
LOSSES = {
    "align": lambda h, _: losses.alignment(h, "code", Reduce()),
    "whiten": lambda h, _: losses.whitening(h, "code", Reduce()),
    "infonce_s1": lambda h, _: losses.info_nce(h, jnp.full(h.shape[-1], 0.5), Reduce()),
    "infonce_s2": lambda h, _: losses.info_nce(h, jnp.full(h.shape[-1], 0.125), Reduce()),
    "sigreg": lambda h, a: sigreg(h.reshape(-1, h.shape[-1]), a),
}


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_match_the_published_code(name, dim):
    h_BVD = jnp.asarray(GOLDEN[f"loss_N{dim}_h"]).swapaxes(0, 1)
    directions = jnp.asarray(GOLDEN[f"loss_N{dim}_sigreg_A"])
    value, grad = jax.value_and_grad(LOSSES[name])(h_BVD, directions)
    np.testing.assert_allclose(value, GOLDEN[f"loss_N{dim}_{name}"], rtol=1e-5)
    expected = GOLDEN[f"loss_N{dim}_{name}_grad"].swapaxes(0, 1)
    np.testing.assert_allclose(grad, expected, atol=2e-5 * np.abs(expected).max())
