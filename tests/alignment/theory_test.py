"""Equation 12, Lemma D.4 and Proposition D.5 of the paper, on networks with random weights.

Encoders and predictors are this project's networks in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from socialjepa_jax import alignment
from socialjepa_jax.models.mlp import MLP, MLPConfig

D = 5


def network(seed, inputs=D):
    """A random network as a function of float64 arrays."""
    graph, state = nnx.split(MLP(MLPConfig(inputs, D, hidden=16, layers=3), nnx.Rngs(seed)))
    state = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), state)
    return lambda x: nnx.merge(graph, state)(x)


def loss(encoder, predictor, context, target):
    """JEPA loss: mean squared error of the predicted target latent, summed over features."""
    error = predictor(encoder(context)) - jax.lax.stop_gradient(encoder(target))
    return float(jnp.mean(jnp.sum(error**2, axis=1)))


def transformed(encoder, predictor, a):
    """f_A = A f and p_A = A p(A^-1 .), equation 19."""
    inverse = jnp.linalg.inv(a)
    return lambda x: encoder(x) @ a.T, lambda z: predictor(z @ inverse.T) @ a.T


def matrices(seed, count=4):
    """Invertible matrices, from rotations to a condition number of a thousand."""
    rng = np.random.default_rng(seed)
    for spread in np.linspace(0, 3, count):
        u, v = (np.linalg.qr(rng.normal(size=(D, D)))[0] for _ in range(2))
        yield jnp.asarray(rng.uniform(0.3, 3) * (u * np.logspace(0, -spread, D)) @ v.T)


def observations(seed, n=64):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(n, D))), jnp.asarray(rng.normal(size=(n, D)))


@pytest.mark.parametrize("seed", [0, 1])
def test_every_invertible_change_of_coordinates_keeps_a_zero_loss(seed):
    """Lemma D.4, and what it means for alignment: W is A and nothing is lost."""
    with jax.enable_x64(True):
        context, _ = observations(seed)
        encoder = network(seed)
        turn = jnp.asarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(D, D)))[0])
        # The target's latent is a function of the context's: x_t is a view whose encoder is exact.
        world = lambda x: encoder(x[:, :D]) if x.shape[1] == D else x[:, D:]  # noqa: E731
        target = jnp.concatenate([context, encoder(context) @ turn.T], axis=1)
        predictor = lambda z: z @ turn.T  # noqa: E731
        assert loss(world, predictor, context, target) == 0
        for a in matrices(seed):
            moved = transformed(world, predictor, a)
            size = float(jnp.mean(jnp.sum(moved[0](target) ** 2, axis=1)))
            assert loss(*moved, context, target) < 1e-20 * size * float(jnp.linalg.cond(a)) ** 2
            z, z_a = np.asarray(encoder(context)), np.asarray(moved[0](context))
            linear_map = alignment.fit(z, z_a, method="lstsq", standardize="center")
            np.testing.assert_allclose(linear_map.w, a, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(alignment.r2(linear_map, z, z_a), 1.0, rtol=1e-12)
            np.testing.assert_allclose(linear_map.kappa, np.linalg.cond(a), rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_of_transformed_models_lies_between_the_extreme_singular_values(seed):
    """Proposition D.5: s_min(A)^2 L <= L_A <= s_max(A)^2 L; rotations keep the loss exactly."""
    with jax.enable_x64(True):
        context, target = observations(seed)
        encoder, predictor = network(seed), network(seed + 100)
        plain = loss(encoder, predictor, context, target)
        assert plain > 0
        for a in matrices(seed):
            s = np.linalg.svd(np.asarray(a), compute_uv=False)
            moved = loss(*transformed(encoder, predictor, a), context, target)
            assert s[-1] ** 2 * plain * (1 - 1e-9) <= moved <= s[0] ** 2 * plain * (1 + 1e-9)
            if s[0] < s[-1] * (1 + 1e-12):
                np.testing.assert_allclose(moved, s[0] ** 2 * plain, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_bounds_are_reached(seed):
    """A model whose error has one direction attains either end of the sandwich."""
    with jax.enable_x64(True):
        context, _ = observations(seed)
        for a in matrices(seed):
            _, s, vt = np.linalg.svd(np.asarray(a))
            for i in (0, D - 1):
                encoder = lambda x: x  # noqa: E731
                shift = jnp.asarray(vt[i])[None]
                predictor = lambda z, shift=shift: z + shift  # noqa: E731
                moved = loss(*transformed(encoder, predictor, a), context, context)
                np.testing.assert_allclose(moved, s[i] ** 2, rtol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_population_minimiser_is_a2_times_the_inverse_of_a1(seed):
    """Equation 12: W* = A2 A1^-1 with noise in z2 too, and kappa(W*) <= kappa(A2) kappa(A1)."""
    rng = np.random.default_rng(seed)
    a1, a2 = (np.asarray(a) for a in (next(matrices(seed, 2)), list(matrices(seed + 50, 3))[1]))
    a1 = a1 + 0.5 * rng.normal(size=(D, D))
    star = a2 @ np.linalg.inv(a1)
    bound = np.linalg.cond(a2) * np.linalg.cond(a1)
    assert np.linalg.cond(star) <= bound * (1 + 1e-9)
    u = rng.normal(size=(16000, D)) * rng.uniform(0.5, 2, D)
    noise = rng.normal(size=u.shape)
    z1 = u @ a1.T
    errors, r2s = [], []
    for n, scale in ((16000, 0.0), (16000, 0.3), (500, 0.3)):
        z2 = u @ a2.T + scale * noise
        linear_map = alignment.fit(z1[:n], z2[:n], method="lstsq", standardize="center")
        errors.append(np.linalg.norm(linear_map.w - star) / np.linalg.norm(star))
        r2s.append(alignment.r2(linear_map, z1, z2))
    assert errors[0] < 1e-10 < errors[1] < errors[2]
    # The standard error of least squares falls with the square root of the number of pairs.
    assert 3 < errors[2] / errors[1] < 20
    np.testing.assert_allclose(r2s[0], 1, rtol=1e-12)
    clean = np.sum(np.var(u @ a2.T, axis=0))
    np.testing.assert_allclose(r2s[1], clean / (clean + D * 0.3**2), atol=0.02)
