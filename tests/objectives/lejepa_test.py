"""LeJEPA's loss against algorithm 2 in float64 NumPy, its gradient, and the averaged weights."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.lejepa import LeJepa, prediction_loss
from socialjepa_jax.objectives.shared.sigreg_term import SigRegTerm
from socialjepa_jax.sharding import Reduce
from socialjepa_jax.sigreg import PAPER, sample_directions

VIT = ViTConfig(image_size=8, patch_size=4, channels=1, width=8, depth=1, heads=2)
CROP = Augment(crop_scale=(0.3, 1.0))
TINY = LeJepa(
    encoder=VIT,
    projector_layers=1,
    projector_dim=4,
    sigreg_slices=16,
    views=MultiCrop(2, 1, 4, view_a=CROP, view_b=CROP, local=CROP),
)


def _numpy_sigreg(z_BVP, directions, view_mode, t_max, num_knots):
    """Algorithm 1 on the full line, in float64."""
    knots = np.linspace(-t_max, t_max, 2 * num_knots - 1)
    window = np.exp(-(knots**2) / 2)
    views = z_BVP.swapaxes(0, 1)
    if view_mode == "flatten":
        views = z_BVP.reshape(1, -1, z_BVP.shape[-1])
    statistics = []
    for z in views:
        ecf = np.exp(1j * (z @ directions)[..., None] * knots).mean(0)
        error = np.abs(ecf - window) ** 2 * window
        statistics.append(np.trapezoid(error, knots) * len(z))
    return np.mean(statistics)


@pytest.mark.parametrize("view_mode", ["per_view", "flatten"])
@pytest.mark.parametrize("loss_form", ["convex", "additive"])
def test_loss_against_algorithm_2(view_mode, loss_form):
    """Given embeddings of 3 global and 2 local views of 24 samples."""
    settings = SigRegTerm(
        sigreg_weight=0.3,
        sigreg_slices=16,
        view_mode=view_mode,
        loss_form=loss_form,
        quadrature=PAPER,
    )
    z = 1.5 * jax.random.normal(jax.random.key(0), (24, 5, 6)) + 0.2
    key = jax.random.key(1)
    prediction = prediction_loss(z, z[:, :3], Reduce())
    penalty = settings.sigreg_loss(z, key, {}, Reduce())
    loss = settings.combine(prediction, penalty, {})

    exact = np.asarray(z, np.float64)
    similarity = np.square(exact[:, :3].mean(1, keepdims=True) - exact).mean()
    directions = np.asarray(sample_directions(key, 6, 16), np.float64)
    regularity = _numpy_sigreg(exact, directions, view_mode, PAPER.t_max, PAPER.num_knots)
    np.testing.assert_allclose(prediction, similarity, rtol=1e-5)
    np.testing.assert_allclose(penalty, regularity, rtol=1e-5)
    rest = 0.7 if loss_form == "convex" else 1.0
    np.testing.assert_allclose(loss, rest * similarity + 0.3 * regularity, rtol=1e-5)
    own = settings.combine(prediction, penalty, {"lambda": jnp.float32(0.1)})
    rest = 0.9 if loss_form == "convex" else 1.0
    np.testing.assert_allclose(own, rest * similarity + 0.1 * regularity, rtol=1e-5)
    levels = settings.sigreg_levels(penalty, z, Reduce())
    np.testing.assert_allclose(levels["sigreg_null"], regularity / 1.0594, rtol=1e-3)
    samples = 24 * (5 if view_mode == "flatten" else 1)
    np.testing.assert_allclose(levels["sigreg_collapse"], regularity / 0.40892 / samples, rtol=1e-3)


def test_centres_carry_gradient():
    """Without stop-gradient, each global view also moves its centre."""
    z = jax.random.normal(jax.random.key(0), (4, 3, 2))
    grad = jax.grad(lambda z: prediction_loss(z, z[:, :2], Reduce()))(z)
    error = np.asarray(z, np.float64) - np.asarray(z, np.float64)[:, :2].mean(1, keepdims=True)
    expected = 2 * error / z.size
    expected[:, :2] -= expected.sum(1, keepdims=True) / 2
    np.testing.assert_allclose(grad, expected, atol=1e-7)


def test_the_loss_is_that_of_its_views():
    """The objective draws views and slices from the key and combines the terms."""
    params, aux = jax.jit(TINY.init)(jax.random.key(0))
    assert aux == {}
    images = jax.random.uniform(jax.random.key(1), (6, 8, 8, 1))
    plain = {"mean": jnp.zeros(1), "std": jnp.ones(1)}
    batch = {"image": images, "index": jnp.arange(6), **plain}
    key_views, key_slices = jax.random.split(jax.random.key(2))
    loss, (_, metrics) = jax.jit(TINY.loss, static_argnums=5)(
        params, aux, batch, jax.random.key(2), {}, Reduce()
    )
    embed = jax.jit(TINY.embed)
    z = np.concatenate(
        [
            np.asarray(embed(params, views.reshape(-1, *views.shape[2:]))[0].projection)
            .reshape(6, -1, 4)
            .astype(np.float64)
            for views in jax.jit(TINY.views)(batch, key_views)
        ],
        axis=1,
    )
    similarity = np.square(z[:, :2].mean(1, keepdims=True) - z).mean()
    directions = np.asarray(sample_directions(key_slices, 4, 16), np.float64)
    regularity = _numpy_sigreg(z, directions, "per_view", 3.0, 17)
    np.testing.assert_allclose(loss, 0.95 * similarity + 0.05 * regularity, rtol=1e-5)
    covariance = np.cov(z.reshape(-1, 4).T)
    rank = np.trace(covariance) ** 2 / np.square(covariance).sum()
    np.testing.assert_allclose(metrics["projection_rank"], rank, rtol=1e-4)
    np.testing.assert_allclose(metrics["projection_variance"], covariance.trace() / 4, rtol=1e-4)


def test_averaged_weights():
    objective = dataclasses.replace(TINY, centers="swa", predictor_layers=1, swa_decay=1.0)
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    assert set(aux["swa"]) == {"encoder", "projector"}  # the predictor is not averaged
    history = [jax.tree.map(lambda x, i=i: x + i, params) for i in range(5)]
    for step, weights in enumerate(history[1:]):
        aux = objective.after_update(weights, aux, jnp.int32(step), {})
    expected = jax.tree.map(lambda x: x + 2.0, {k: params[k] for k in aux["swa"]})
    chex.assert_trees_all_close(aux["swa"], expected, rtol=1e-5, atol=1e-6)  # all five alike
    short = dataclasses.replace(objective, swa_decay=0.25)
    late = short.after_update(history[0], {"swa": history[4]}, jnp.int32(100), {})
    expected = jax.tree.map(lambda x: x + 1.0, {k: params[k] for k in aux["swa"]})
    chex.assert_trees_all_close(
        {k: late["swa"][k] for k in expected}, expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.nightly
def test_centres_of_averaged_weights_are_given():
    """With "swa" the centre depends on the average, and no gradient passes through it."""
    objective = dataclasses.replace(TINY, centers="swa")
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (6, 8, 8, 1))
    batch = {"image": images, "index": jnp.arange(6), "mean": jnp.zeros(1), "std": jnp.ones(1)}

    def prediction(params, aux):
        loss = objective.loss(params, aux, batch, jax.random.key(2), {"lambda": 0.0}, Reduce())
        return loss[0]

    run = jax.jit(jax.value_and_grad(prediction, argnums=(0, 1)))
    value, (grads, none) = run(params, aux)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(none))
    chex.assert_tree_all_finite(grads)
    away = {"swa": jax.tree.map(lambda x: 2.0 * x, aux["swa"])}
    assert abs(float(run(params, away)[0] / value) - 1) > 0.1


def test_with_kept_directions_and_plain_views_the_key_changes_nothing():
    plain = Augment()  # views are the images themselves
    views = MultiCrop(2, 0, 4, view_a=plain, view_b=plain)
    objective = dataclasses.replace(TINY, sigreg_resample=False, views=views)
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (6, 8, 8, 1))
    batch = {"image": images, "index": jnp.arange(6), "mean": jnp.zeros(1), "std": jnp.ones(1)}
    loss = jax.jit(objective.loss, static_argnums=5)
    first, second = (
        loss(params, aux, batch, jax.random.key(k), {"seed": jnp.uint32(0)}, Reduce())[0]
        for k in (2, 3)
    )
    assert first == second
