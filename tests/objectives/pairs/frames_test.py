"""The objective on frame pairs against float64 NumPy, from the pixels to the loss."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from scipy import special

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.pairs import CONTRASTIVE, REGULARIZERS
from socialjepa_jax.objectives.pairs.frames import RHO_MOMENTUM, FramePairs
from socialjepa_jax.sharding import Reduce
from socialjepa_jax.sigreg import sample_directions

BATCH, SIDE = 16, 4
NET = PatchNetConfig(image_size=SIDE, channels=2, patches=(2,), widths=(5,), hidden=6)
TINY = FramePairs(encoder=NET, num_slices=8, weight=0.3)
PREDICTIVE = dataclasses.replace(
    TINY, predictor_layers=1, predictor_width=7, target_decay=0.75, weight_rule="fixed"
)
DEEP = dataclasses.replace(PREDICTIVE, predictor_layers=2, weight_rule="dynamics")


KEY = jax.random.key(3)


@functools.cache
def batch(seed=0):
    """Pairs of similar images."""
    first, change = np.random.default_rng(seed).normal(size=(2, BATCH, SIDE, SIDE, 2))
    pair = {"image": first, "next": 0.9 * first + 0.4 * change}
    return {"index": np.arange(BATCH), **{k: v.astype(np.float32) for k, v in pair.items()}}


@functools.cache
def started(objective):
    """Parameters and carried state of a step on the way: no value is what it begins with."""
    params, aux = jax.eval_shape(objective.init, KEY)
    rng = np.random.default_rng(2)

    def drawn(scale, x):
        return (scale * rng.normal(size=x.shape)).astype(np.float32)

    params = jax.tree.map(functools.partial(drawn, 0.4), params)
    state = {"rho": np.float32(0.0)}
    if "target" in aux:
        state["target"] = jax.tree.map(functools.partial(drawn, 0.5), aux["target"])
    if "statistics" in aux:
        fresh = aux["statistics"]["encoder"].items()
        state["statistics"] = {
            "encoder": {k: (np.zeros(m.shape), np.ones(v.shape)) for k, (m, v) in fresh}
        }
    return params, state


def gradient(objective, reduce):
    return jax.value_and_grad(functools.partial(objective.loss, reduce=reduce), has_aux=True)


@functools.cache
def compiled(objective):
    """The loss with its gradient."""
    return jax.jit(gradient(objective, Reduce()))


FIXED = dataclasses.replace(TINY, weight_rule="fixed")
INFONCE = dataclasses.replace(TINY, regularizer="infonce")
CASES = {  # objective and settings of its agents
    **{
        f"{regularizer} {convention}": (
            dataclasses.replace(TINY, regularizer=regularizer, convention=convention, sigma=1.3),
            {},
        )
        for regularizer in REGULARIZERS
        for convention in ("paper", "code")
    },
    "view by view": (dataclasses.replace(TINY, flatten=False), {}),
    "debiased": (dataclasses.replace(TINY, debiased=True), {}),
    "fixed": (FIXED, {}),
    "own lambda": (FIXED, {"lambda": jnp.float32(0.05)}),
    "contrastive": (INFONCE, {}),
    "own sigma": (INFONCE, {"sigma": jnp.float32(2.0)}),
    "wide": (dataclasses.replace(INFONCE, sigma=2.0), {}),
    "predictive": (PREDICTIVE, {}),
    "predictive without target": (dataclasses.replace(PREDICTIVE, target_decay=0.0), {}),
}


@functools.cache
def all_losses():
    """Loss, carried state and metrics of the first step of all cases, in one program."""

    def losses(states, data):
        return {
            name: objective.loss(*states[name], data, KEY, hparams, Reduce())
            for name, (objective, hparams) in CASES.items()
        }

    states = {name: started(objective) for name, (objective, _) in CASES.items()}
    return jax.jit(losses)(states, batch())


def run(name):
    """Loss, metrics and carried state of a case."""
    loss, (aux, metrics) = all_losses()[name]
    return float(loss), metrics, aux


# The same in NumPy.


def embed(params, images, statistics=None):
    """Latents, hidden features and statistics (mean, variance) of `NET` and the head."""
    exact = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    used = {}

    def block(name, linear, x):
        axes = tuple(range(x.ndim - 1))
        net = exact["encoder"]
        x = x @ net[linear]["kernel"] + net[linear]["bias"]
        used[name] = (x.mean(axes), x.var(axes)) if statistics is None else statistics[name]
        mean, variance = (np.asarray(s, np.float64) for s in used[name])
        x = (x - mean) / np.sqrt(variance + 1e-5) * net[name]["scale"] + net[name]["bias"]
        return x * 0.5 * special.erfc(-x / 2**0.5)

    x = np.asarray(images, np.float64).reshape(-1, 2, 2, 2, 2, 2)  # rows, columns of 2 x 2 patches
    x = block("norm_0", "fc_0", x.transpose(0, 1, 3, 2, 4, 5).reshape(len(x), 2, 2, 8))
    hidden = block("norm_fc", "fc", x.reshape(len(x), -1))
    return hidden @ exact["head"]["kernel"] + exact["head"]["bias"], hidden, used


def pair(objective):
    """Embeddings f64[B, 2, D] of the batch, normalised together, and the statistics."""
    data = batch()
    images = np.concatenate([data["image"], data["next"]])
    h, _, used = embed(started(objective)[0], images)
    return np.stack(np.split(h, 2), axis=1), used


def sigreg(z, directions):
    knots = np.linspace(-3.0, 3.0, 33)
    window = np.exp(-(knots**2) / 2)
    ecf = np.exp(1j * (z @ directions)[..., None] * knots).mean(0)
    return np.mean(np.trapezoid(np.abs(ecf - window) ** 2 * window, knots)) * len(z)


def penalty(h, objective):
    """The regulariser of float64 embeddings."""
    flat, dim = h.reshape(-1, h.shape[-1]), h.shape[-1]
    covariance = np.cov(flat.T)
    paper = objective.convention == "paper"
    precision = (1.0 if paper else 0.5) / objective.sigma**2 * np.ones(dim)
    if objective.regularizer == "aninfonce":
        precision *= np.exp(np.asarray(started(objective)[0]["log_precision"], np.float64))
    distance = (precision * np.square(h[:, None, 0] - h[None, :, 1])).sum(-1)
    softmax = [np.diag(-distance) - special.logsumexp(-distance, axis) for axis in (1, 0)]
    directions = np.asarray(sample_directions(KEY, dim, objective.num_slices), np.float64)
    squares = np.square(covariance - np.eye(dim))
    off = covariance - np.diag(np.diag(covariance))
    hinge = np.maximum(0, 1 - np.sqrt(np.diag(covariance) + 1e-4)).mean()
    return {
        "sigreg": sigreg(flat, directions),
        "whiten": squares.sum() if paper else squares.mean(),
        "vicreg": hinge + np.square(off).sum() / dim / 25,
        "infonce": -np.mean(softmax),
        "aninfonce": -np.mean(softmax),
        "none": 0.0,
    }[objective.regularizer]


def distance(h, objective):
    paper = np.square(h[:, 0] - h[:, 1]).sum(-1).mean()
    return paper if objective.convention == "paper" else paper / (4 * h.shape[-1])


@pytest.mark.parametrize("convention", ["paper", "code"])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_the_loss_is_that_of_float64(regularizer, convention):
    name = f"{regularizer} {convention}"
    objective, _ = CASES[name]
    loss, metrics, aux = run(name)
    h, used = pair(objective)
    align, regular = distance(h, objective), penalty(h, objective)
    trace = np.trace(np.cov(h.reshape(-1, 3).T))
    rho = 1 - np.square(h[:, 0] - h[:, 1]).sum(-1).mean() / (2 * trace)
    assert 0.5 < rho < 0.99
    weight = 0.3 * (1 - RHO_MOMENTUM * rho)
    expected = weight * regular + (1 - weight) * align
    if regularizer in CONTRASTIVE:
        expected = regular
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    named = {"alignment": align, "regularizer": regular, "lambda": weight,
             "rho_hat": RHO_MOMENTUM * rho, "latent_variance": trace / 3}  # fmt: skip
    assert set(metrics) == set(named)
    for name, value in named.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-4, err_msg=name)
    # Both images are normalised by the statistics of the two together, which move the average.
    for name, (mean, variance) in used.items():
        found = aux["statistics"]["encoder"][name]
        np.testing.assert_allclose(found[0], 0.1 * mean, atol=1e-5)
        np.testing.assert_allclose(found[1], 0.9 + 0.1 * variance, rtol=1e-4)


def test_sigreg_view_by_view():
    h, _ = pair(TINY)
    directions = np.asarray(sample_directions(KEY, 3, 8), np.float64)
    expected = np.mean([sigreg(h[:, view], directions) for view in (0, 1)])
    np.testing.assert_allclose(run("view by view")[1]["regularizer"], expected, rtol=1e-4)


def test_debiased_sigreg_counts_pairs_of_different_samples():
    """The U-statistic of theorem 6: |phi|^2 from pairs i != j, cross term and target as before."""
    h, _ = pair(TINY)
    directions = np.asarray(sample_directions(KEY, 3, 8), np.float64)
    u_NM = h.reshape(-1, 3) @ directions
    knots = np.linspace(-3.0, 3.0, 33)
    window, n = np.exp(-(knots**2) / 2), len(u_NM)
    values = []
    for u in u_NM.T:
        of_pairs = np.cos((u[:, None] - u[None])[..., None] * knots)[~np.eye(n, dtype=bool)]
        cross = np.cos(u[:, None] * knots).mean(0)
        distance = of_pairs.mean(0) - 2 * cross * window + window**2
        values.append(n * np.trapezoid(distance * window, knots))
    found = run("debiased")[1]["regularizer"]
    np.testing.assert_allclose(found, np.mean(values), rtol=1e-4)
    with pytest.raises(InputError, match="debiased=True needs regularizer='sigreg', not 'whiten'"):
        FramePairs(regularizer="whiten", debiased=True)


def test_lambda_follows_the_correlation_and_carries_no_gradient():
    """After many steps on one batch lambda is c (1 - rho); its gradient is that of a number."""
    params, aux = started(TINY)
    h, _ = pair(TINY)
    trace = np.trace(np.cov(h.reshape(-1, 3).T))
    rho = 1 - np.square(h[:, 0] - h[:, 1]).sum(-1).mean() / (2 * trace)
    for n in range(1, 101):
        (_, (aux, metrics)), grads = compiled(TINY)(params, aux, batch(), key=KEY, hparams={})
        expected = 0.3 * (1 - rho * (1 - (1 - RHO_MOMENTUM) ** n))
        np.testing.assert_allclose(metrics["lambda"], expected, rtol=1e-4)
    assert 0.3 * (1 - rho) < metrics["lambda"] < 0.3 * (1 - 0.8 * rho)
    _, given = compiled(FIXED)(params, aux, batch(), key=KEY, hparams={"lambda": metrics["lambda"]})
    chex.assert_trees_all_close(given, grads, rtol=1e-3, atol=1e-5)


def test_settings_of_agents_take_precedence():
    assert run("fixed")[1]["lambda"] == pytest.approx(0.3)
    assert run("own lambda")[1]["lambda"] == pytest.approx(0.05)
    assert run("own sigma")[0] == pytest.approx(run("wide")[0], rel=1e-6)
    assert run("own sigma")[0] != pytest.approx(run("contrastive")[0], rel=1e-3)


def test_the_predictive_form_compares_a_prediction_with_the_target():
    for name in ("predictive", "predictive without target"):
        objective, _ = CASES[name]
        params, aux = started(objective)
        loss, metrics, _ = run(name)
        h, _ = pair(objective)
        layer = jax.tree.map(lambda x: np.asarray(x, np.float64), params["predictor"]["fc_0"])
        target = h[:, 1]  # of the encoder itself
        if "target" in aux:
            target, _, _ = embed(aux["target"], batch()["next"])
        both = np.stack([h[:, 0] @ layer["kernel"] + layer["bias"], target], axis=1)
        align, regular = distance(both, objective), penalty(h, objective)
        np.testing.assert_allclose(metrics["alignment"], align, rtol=1e-4)
        np.testing.assert_allclose(loss, 0.3 * regular + 0.7 * align, rtol=1e-4)
    assert "target" in started(PREDICTIVE)[1] and "target" not in aux


def test_the_target_follows_the_encoder_and_has_no_gradient():
    params, aux = started(PREDICTIVE)
    assert set(aux["target"]) == {"encoder", "head"}
    fresh, at_first = jax.jit(PREDICTIVE.init)(KEY)
    chex.assert_trees_all_equal(at_first["target"], {k: fresh[k] for k in at_first["target"]})

    def loss(target):
        return PREDICTIVE.loss(
            params, {**aux, "target": target}, batch(), KEY, {"lambda": jnp.float32(0)}, Reduce()
        )[0]

    value, grads = jax.jit(jax.value_and_grad(loss))(aux["target"])
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(grads))
    moved = PREDICTIVE.after_update(params, aux, jnp.int32(0), {})
    expected = {
        name: jax.tree.map(lambda t, p: 0.75 * t + 0.25 * p, aux["target"][name], params[name])
        for name in ("encoder", "head")
    }
    chex.assert_trees_all_close(moved["target"], expected, rtol=1e-5)
    assert abs(float(jax.jit(loss)(moved["target"])) - float(value)) > 1e-4
    assert moved["rho"] is aux["rho"]
    plain = started(TINY)
    assert TINY.after_update(*plain, jnp.int32(0), {}) is plain[1]


def test_encoding_takes_the_running_statistics():
    params, _ = started(TINY)
    aux = run("sigreg code")[2]
    encode, images = jax.jit(TINY.encode), batch(5)["image"]
    found = encode(params, aux, images)
    latent, hidden, _ = embed(params, images, aux["statistics"]["encoder"])
    assert set(found) == {"latent", "hidden"}
    np.testing.assert_allclose(found["latent"], latent, atol=1e-4)
    np.testing.assert_allclose(found["hidden"], hidden, atol=1e-4)
    alone = encode(params, aux, images[:1])  # no row depends on its neighbours
    np.testing.assert_allclose(alone["latent"], found["latent"][:1], atol=1e-5)


def test_shards_of_a_batch_are_normalised_and_compared_as_one():
    """First and second images of a shard stay together, wherever the batch is cut."""
    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    sharded = jax.shard_map(
        functools.partial(gradient(DEEP, Reduce("data")), key=KEY, hparams={}),
        mesh=mesh,
        in_specs=(P(), P(), P("data")),
        out_specs=P(),
    )
    (loss, (aux, metrics)), grads = jax.jit(sharded)(*started(DEEP), batch())
    (whole, (aux_of_whole, metrics_of_whole)), grads_of_whole = compiled(DEEP)(
        *started(DEEP), batch(), key=KEY, hparams={}
    )
    np.testing.assert_allclose(loss, whole, rtol=1e-5)
    chex.assert_trees_all_close(metrics, metrics_of_whole, rtol=1e-5)
    chex.assert_trees_all_close(aux, aux_of_whole, rtol=1e-5, atol=1e-6)
    largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(grads_of_whole))
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(grads_of_whole)):
        np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.abs(b).max()) + 1e-6 * largest)
    assert all(np.any(g) for g in jax.tree.leaves(grads["predictor"]["fc_1"]))


VIT = ViTConfig(image_size=SIDE, patch_size=2, channels=2, width=8, depth=1, heads=2, init_std=0.2)
RESNET = ResNetConfig(image_size=SIDE, channels=2, depth=10, stem_width=2, stem="small")


def test_other_encoders_are_trained_alike():
    def first_step(objective, key, data):
        params, aux = objective.init(key)
        loss, (after, _) = objective.loss(params, aux, data, key, {}, Reduce())
        return loss, after, objective.encode(params, after, data["image"])

    for encoder, latent in ((VIT, "cls"), (RESNET, "mean")):
        objective = dataclasses.replace(TINY, encoder=encoder, latent=latent, outputs=5)
        step = functools.partial(first_step, objective)
        loss, aux, encoded = jax.eval_shape(step, KEY, batch())
        assert loss.shape == () and ("statistics" in aux) == (encoder is RESNET)
        assert encoded["latent"].shape == (BATCH, 5)
        assert encoded["hidden"].shape == (BATCH, encoder.width)
        if encoder is VIT:
            loss, aux, encoded = jax.jit(step)(KEY, batch())
            chex.assert_tree_all_finite((loss, aux, encoded))
            assert loss > 0 and encoded["latent"].std(0).min() > 1e-3


def test_single_images_are_refused():
    alone = {name: value for name, value in batch().items() if name != "next"}
    with pytest.raises(InputError, match=r"kind='frame_pairs' needs config.data.kind='motion'"):
        TINY.loss(*started(TINY), alone, KEY, {}, Reduce())


def test_registry():
    assert OBJECTIVES["frame_pairs"] is FramePairs


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "pairs"}, "kind='pairs'"),
        ({"regularizer": "dino"}, "regularizer='dino'"),
        ({"convention": "theirs"}, "convention='theirs'"),
        ({"kernel": "wide"}, "kernel='wide'"),
        ({"latent": "cls"}, "latent='cls'"),
        ({"weight_rule": "free"}, "weight_rule='free'"),
        ({"weight": 1.5}, "weight=1.5"),
        ({"outputs": 0}, "outputs=0"),
        ({"sigma": 0.0}, "sigma=0.0"),
        ({"num_slices": 0}, "num_slices=0"),
        ({"predictor_layers": 4}, "predictor_layers=4"),
        ({"predictor_width": 0}, "predictor_width=0"),
        ({"target_decay": 1.5, "predictor_layers": 1}, "target_decay=1.5"),
        ({"target_decay": 0.9}, "target_decay=0.9 needs predictor_layers >= 1"),
        ({"regularizer": "infonce", "predictor_layers": 1}, "predictor_layers=1: .*'infonce'"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        FramePairs(**fields)
