import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import OFFICIAL, PAPER, epps_pulley, sample_directions, sigreg
from tests.sigreg import oracle

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "sigreg.npz")
CASES = json.loads(str(GOLDEN["__meta__"]))


def embeddings(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


value_and_grad = jax.jit(jax.value_and_grad(sigreg), static_argnames=("statistic",))


@pytest.mark.parametrize("case", CASES)
def test_equals_the_published_implementation(case):
    statistic = partial(epps_pulley, t_max=CASES[case]["t_max"], num_knots=CASES[case]["n_points"])
    z, directions = GOLDEN[f"{case}_x"], GOLDEN[f"{case}_A"]
    value, grad = value_and_grad(z, directions, statistic=statistic)
    np.testing.assert_allclose(value, GOLDEN[f"{case}_mean"], rtol=1e-5)
    expected = GOLDEN[f"{case}_f64_grad_mean"]
    np.testing.assert_allclose(grad, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("case", ["c00", "c05", "c11"])
def test_each_slice_equals_the_published_implementation(case):
    projections = GOLDEN[f"{case}_proj"]
    np.testing.assert_allclose(epps_pulley(projections), GOLDEN[f"{case}_f64_per_slice"], rtol=1e-5)
    paper = epps_pulley(projections, t_max=PAPER.t_max, num_knots=PAPER.num_knots)
    np.testing.assert_allclose(paper, GOLDEN[f"{case}_paper_alg1_per_slice"], rtol=1e-5)


def test_equals_float64_formula_in_many_dimensions():
    z, directions = embeddings((500, 96)), sample_directions(jax.random.key(1), 96, 64)
    value, grad = value_and_grad(z, directions)
    expected, expected_grad = oracle.sigreg(z, directions)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert np.linalg.norm(grad - expected_grad) <= 3e-6 * np.linalg.norm(expected_grad)


def test_rotating_embeddings_and_directions_changes_nothing():
    z, directions = embeddings((128, 12)), sample_directions(jax.random.key(0), 12, 40)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0].astype(np.float32)
    value, grad = value_and_grad(z, directions)
    turned, turned_grad = value_and_grad(z @ rotation, rotation.T @ directions)
    np.testing.assert_allclose(turned, value, rtol=1e-5)
    np.testing.assert_allclose(turned_grad @ rotation.T, grad, atol=1e-5 * np.abs(grad).max())


def test_views_are_scored_alone_and_averaged():
    z, directions = embeddings((3, 32, 6)), sample_directions(jax.random.key(0), 6, 10)
    each = [sigreg(view, directions) for view in z]
    np.testing.assert_allclose(sigreg(z, directions), np.mean(each), rtol=1e-6)


def test_correlated_views_score_higher_when_flattened():
    # The flattened level of two views with correlation r is null_level plus a positive term.
    first = embeddings((4096, 8))
    second = 0.95 * first + np.sqrt(1 - 0.95**2) * embeddings((4096, 8), seed=1)
    directions = sample_directions(jax.random.key(0), 8, 256)
    per_view = sigreg(np.stack([first, second]), directions)
    flattened = sigreg(np.concatenate([first, second]), directions)
    assert float(flattened) > 1.4 * float(per_view)


def test_bfloat16_embeddings_are_within_half_a_percent():
    z, directions = embeddings((256, 64)), sample_directions(jax.random.key(0), 64, 128)
    value = sigreg(jnp.asarray(z, jnp.bfloat16), directions)
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, sigreg(z, directions), rtol=5e-3)
    grad = jax.grad(sigreg)(jnp.asarray(z, jnp.bfloat16), directions)
    assert grad.dtype == jnp.bfloat16


def test_collapsed_embeddings_are_finite_and_seen():
    directions = sample_directions(jax.random.key(0), 4, 16)
    value, grad = value_and_grad(jnp.zeros((64, 4)), directions)
    np.testing.assert_allclose(value, 64 * OFFICIAL.collapse_level, rtol=1e-5)
    np.testing.assert_array_equal(grad, 0.0)  # exact collapse at the origin is stationary
    assert np.abs(value_and_grad(jnp.ones((64, 4)), directions)[1]).max() > 1e-3


def test_descent_whitens_an_anisotropic_cloud():
    # First two moments in all directions determine mean 0 and covariance I (appendix B.14).
    start = embeddings((256, 3)) * np.float32([[1.5, 1.0, 0.5]]) + np.float32(0.5)
    start[:, 1] += 0.5 * start[:, 0]

    def step(i, z):
        key = jax.random.fold_in(jax.random.key(0), i)
        return z - jax.grad(sigreg)(z, sample_directions(key, 3, 32))

    def anisotropy(z):
        return np.abs(np.cov(np.asarray(z).T) - np.eye(3)).max()

    end = jax.jit(lambda z: jax.lax.fori_loop(0, 1600, step, z))(start)
    assert np.abs(np.mean(end, axis=0)).max() < 0.1 * np.abs(np.mean(start, axis=0)).max()
    assert anisotropy(end) < 0.2 * anisotropy(start)


def test_bad_shapes_are_named():
    for z, directions in (((4, 3), (4, 5)), ((3,), (3, 5)), ((4, 3), (3,))):
        with pytest.raises(InputError, match=r"directions\.shape"):
            sigreg(jnp.ones(z), jnp.ones(directions))
