import jax
import numpy as np
import pytest
from scipy import special

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.mlp import MLP, MLPConfig


def _count(params):
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(("layers", "count"), [(5, 198_658), (4, 132_866)])
def test_parameters_of_the_code_and_of_the_paper(layers, count):
    init, _ = functional(lambda rngs: MLP(MLPConfig(layers=layers), rngs))
    assert _count(init(jax.random.key(0))) == count


def test_matches_the_formula_in_float64():
    init, apply = functional(lambda rngs: MLP(MLPConfig(3, 2, 8, 3), rngs))
    params = init(jax.random.key(1))
    x_BD = np.asarray(jax.random.normal(jax.random.key(2), (5, 3)), np.float64)
    y = x_BD
    for i in range(3):
        layer = {name: np.asarray(leaf, np.float64) for name, leaf in params[f"linear_{i}"].items()}
        y = y @ layer["kernel"] + layer["bias"]
        if i < 2:
            y = y * special.ndtr(y)
    np.testing.assert_allclose(apply(params, x_BD.astype(np.float32)), y, atol=1e-6)


def test_initial_weights_are_uniform_within_the_bound():
    init, _ = functional(lambda rngs: MLP(MLPConfig(), rngs))
    kernel = np.asarray(init(jax.random.key(3))["linear_1"]["kernel"])
    assert np.abs(kernel).max() <= 256**-0.5
    np.testing.assert_allclose(kernel.std(), (3 * 256) ** -0.5, rtol=0.02)


def test_refuses_impossible_sizes():
    with pytest.raises(InputError, match="layers=1"):
        MLPConfig(layers=1)
    with pytest.raises(InputError, match="hidden=0"):
        MLPConfig(hidden=0)
