import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.models.mlp import MLPConfig
from socialjepa_jax.objectives import pairs
from socialjepa_jax.sharding import Reduce


def _numpy_losses(h, regularizer, sigma):
    """Float64 NumPy: (alignment, penalty) in the paper's convention."""
    flat = h.reshape(-1, h.shape[-1])
    covariance = np.cov(flat.T)
    distance = np.square(h[:, None, 0] - h[None, :, 1]).sum(-1) / sigma**2
    log_softmax = [np.diag(-distance) - np.log(np.exp(-distance).sum(axis)) for axis in (1, 0)]
    variance = np.diag(covariance)
    off = covariance - np.diag(variance)
    return np.square(h[:, 0] - h[:, 1]).sum(-1).mean(), {
        "whiten": np.square(covariance - np.eye(len(covariance))).sum(),
        "infonce": -np.mean(log_softmax),
        "aninfonce": -np.mean(log_softmax),
        "vicreg": np.maximum(0, 1 - np.sqrt(variance + 1e-4)).mean()
        + np.square(off).sum() / len(off) / 25,
        "none": 0.0,
    }[regularizer]


@pytest.mark.parametrize("regularizer", ["whiten", "vicreg", "infonce", "aninfonce", "none"])
def test_paper_convention_against_float64(regularizer):
    learner = pairs.Pairs(MLPConfig(3, 4, 16, 3), regularizer, "paper")
    params, aux = learner.init(jax.random.key(0))
    views = jax.random.normal(jax.random.key(1), (40, 2, 3))
    hparams = {"lambda": jnp.float32(0.3), "sigma": jnp.float32(1.3)}
    total, (_, metrics) = learner.loss(
        params, aux, {"views": views}, jax.random.key(2), hparams, Reduce()
    )
    h = np.asarray(learner.encode(params, aux, views.reshape(-1, 3))["latent"], np.float64)
    align, penalty = _numpy_losses(h.reshape(40, 2, 4), regularizer, 1.3)
    np.testing.assert_allclose(metrics["alignment"], align, rtol=1e-4)
    np.testing.assert_allclose(metrics["regularizer"], penalty, rtol=1e-4)
    alone = regularizer in pairs.CONTRASTIVE
    np.testing.assert_allclose(total, penalty if alone else 0.3 * penalty + 0.7 * align, rtol=1e-4)


@pytest.mark.nightly
def test_learnt_precisions_bend_the_kernel():
    learner = pairs.Pairs(MLPConfig(2, 2, 8, 2), "aninfonce")
    params, aux = learner.init(jax.random.key(0))
    hparams = {"lambda": jnp.float32(0.5), "sigma": jnp.float32(1.0)}
    views = jax.random.normal(jax.random.key(1), (16, 2, 2))

    def loss(params):
        return learner.loss(params, aux, {"views": views}, jax.random.key(2), hparams, Reduce())[0]

    assert jnp.abs(jax.grad(loss)(params)["log_precision"]).min() > 0
    same = pairs.Pairs(MLPConfig(2, 2, 8, 2), "infonce")
    plain = same.loss(params, aux, {"views": views}, jax.random.key(2), hparams, Reduce())[0]
    np.testing.assert_allclose(loss(params), plain, rtol=1e-6)


def test_scaled_kernel_widens_with_the_dimension():
    views = jax.random.normal(jax.random.key(1), (16, 2, 8))
    values = {}
    for kernel, sigma in [("scaled", 1.0), ("fixed", 2.0)]:
        learner = pairs.Pairs(CouplingConfig(8), "infonce", kernel=kernel)
        params, aux = learner.init(jax.random.key(0))
        hparams = {"lambda": jnp.float32(0.5), "sigma": jnp.float32(sigma)}
        values[kernel] = learner.loss(
            params, aux, {"views": views}, jax.random.key(2), hparams, Reduce()
        )[0]
    np.testing.assert_allclose(values["scaled"], values["fixed"], rtol=1e-6)


@pytest.mark.parametrize(
    "regularizer",
    ["sigreg", *(pytest.param(r, marks=pytest.mark.nightly) for r in ("vicreg", "aninfonce"))],
)
def test_the_sharded_loss_is_the_loss_of_the_global_batch(regularizer):
    learner = pairs.Pairs(CouplingConfig(4, 2, init="normal", gain=1.0), regularizer)
    params, aux = learner.init(jax.random.key(0))
    views = jax.random.normal(jax.random.key(1), (32, 2, 4))
    hparams = {"lambda": jnp.float32(0.3), "sigma": jnp.float32(1.0)}
    key = jax.random.key(2)

    def loss(params, views, reduce):
        return learner.loss(params, aux, {"views": views}, key, hparams, reduce)[0]

    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
    sharded = jax.shard_map(
        jax.value_and_grad(lambda p, v: loss(p, v, Reduce("data"))),
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=(P(), P()),
    )
    value, grad = jax.jit(sharded)(params, views)
    expected, expected_grad = jax.value_and_grad(loss)(params, views, Reduce())
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for ours, theirs in zip(jax.tree.leaves(grad), jax.tree.leaves(expected_grad)):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * float(jnp.abs(theirs).max()))


def test_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="regularizer='dino'"):
        pairs.Pairs(MLPConfig(), "dino")
    with pytest.raises(InputError, match="convention='theirs'"):
        pairs.Pairs(MLPConfig(), convention="theirs")
