import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from socialjepa_jax.models.functional import functional


class Affine(nnx.Module):
    def __init__(self, dim, rngs):
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (dim, dim)))
        self.bias = nnx.Param(jnp.zeros(dim))

    def __call__(self, x, scale=1.0):
        return scale * (x @ self.kernel[...] + self.bias[...][None])

    def transposed(self, x):
        return x @ self.kernel[...].T


class Pair(nnx.Module):
    def __init__(self, rngs):
        self.first = Affine(3, rngs)
        self.second = Affine(3, rngs)

    def __call__(self, x):
        return self.second(self.first(x))


def test_parameters_are_nested_dicts_of_arrays_with_string_keys():
    params = functional(Pair).init(jax.random.key(0))
    assert type(params) is dict and type(params["first"]) is dict
    assert sorted(params) == ["first", "second"]
    chex.assert_shape(params["first"]["kernel"], (3, 3))
    assert not np.array_equal(params["first"]["kernel"], params["second"]["kernel"])


def test_apply_computes_with_the_given_parameters_and_leaves_them_alone():
    affine = functional(lambda rngs: Affine(3, rngs))
    x = jnp.arange(6.0).reshape(2, 3)
    params = {"kernel": jnp.diag(jnp.array([1.0, 2.0, 3.0])), "bias": jnp.ones(3)}
    np.testing.assert_allclose(affine.apply(params, x, scale=2.0), [[2, 6, 14], [8, 18, 32]])
    np.testing.assert_allclose(affine.apply(params, x, method="transposed")[1], [3, 8, 15])
    assert sorted(params) == ["bias", "kernel"]


def test_init_and_apply_map_over_agents():
    pair = functional(Pair)
    keys = jax.random.split(jax.random.key(1), 3)
    stacked = jax.vmap(pair.init)(keys)
    x = jnp.ones((3, 2, 3))
    out = jax.jit(jax.vmap(pair.apply))(stacked, x)
    one = pair.init(keys[2])
    np.testing.assert_allclose(out[2], pair.apply(one, x[2]), rtol=1e-6)
    grads = jax.grad(lambda p: pair.apply(p, x[0]).sum())(one)
    chex.assert_trees_all_equal_shapes(grads, one)
