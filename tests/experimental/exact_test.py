"""One result for any number of devices, to the bit, and the right one."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax import agents, build, sharding
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.protocols import Opening
from socialjepa_jax.data.resident import ResidentFeed
from socialjepa_jax.experimental import exact, exact_sums
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.optim import AdamW
from socialjepa_jax.sharding import Reduce

SHARDS, ROWS, WIDTH = 4, 24, 6


@jax.custom_jvp
def halved(x):
    return x / 2


halved.defjvp(lambda x, t: (halved(*x), t[0] / 2))


def loss(params, x, reduce):
    """Sums, gathers and what is random, inside what wraps a program in another."""
    noise = jax.vmap(jax.random.normal)(jax.vmap(jax.random.key)(x[:, 0].astype(jnp.uint32)))
    z = jnp.tanh(x @ params["kernel"]) + 0.01 * noise[:, None]
    num = reduce.sum(jnp.ones(len(z)))
    centred = z - jax.jit(reduce.mean)(z)[None]
    covariance = jax.checkpoint(reduce.sum)((centred.T @ centred)[None]) / num
    scores = z @ reduce.gather(z).T  # every row against those of all shards
    contrast = reduce.mean(jax.nn.logsumexp(scores, axis=1)) / params["scale"]
    return jnp.square(covariance).sum() + halved(contrast), jnp.diagonal(covariance)


def inputs():
    key_x, key_w = jax.random.split(jax.random.key(0))
    x = 3 * jax.random.normal(key_x, (ROWS, WIDTH))
    return {"kernel": jax.random.normal(key_w, (WIDTH, 5)), "scale": jnp.float32(3.0)}, x


def on(devices, function, shards=SHARDS):
    """(shared, x [N, ...]) -> what `function` returns, on a mesh."""
    mesh = jax.make_mesh((devices,), ("data",), (AxisType.Auto,), devices=jax.devices()[:devices])

    def local(shared, x):
        parts = x.reshape(shards // devices, -1, *x.shape[1:])
        return exact_sums.over_shards(function, shards, "data")(shared, parts)

    sharded = jax.shard_map(
        local, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )
    return jax.jit(sharded, compiler_options=exact_sums.COMPILER_OPTIONS)


def gradient(params, x):
    value, grads = jax.value_and_grad(loss, has_aux=True)(params, x, Reduce("data"))
    return value, jax.tree.map(lambda g: jax.lax.pmean(g, "data"), grads)


@functools.cache
def result(devices):
    return jax.device_get(on(devices, gradient)(*inputs()))


def test_the_gradient_is_that_of_the_whole_batch():
    params, x = inputs()
    expected = jax.value_and_grad(loss, has_aux=True)(params, x, Reduce())
    chex.assert_trees_all_close(result(2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("devices", [2, 4])
def test_any_number_of_devices_gives_the_same_bits(devices):
    chex.assert_trees_all_equal(result(devices), result(1))


def test_sums_are_taken_in_order():
    """As a loop in float32 does; one pairwise or in another order differs for these numbers."""
    x = (np.random.default_rng(1).standard_normal(8) * 10.0 ** np.arange(8)).astype(np.float32)
    in_order = functools.reduce(np.add, x)
    assert in_order != functools.reduce(np.add, x[::-1])
    for devices in (1, 8):
        total = on(devices, lambda _, x: jax.lax.psum(x[0], "data"), shards=8)((), x)
        assert total == in_order


def test_shards_know_which_and_how_many_they_are():
    def own_index(_, x):
        index, size = jax.lax.axis_index("data"), jax.lax.axis_size("data")
        return jax.lax.all_gather(10 * size + index + 0 * x[0].astype(jnp.int32), "data")

    for devices in (1, 4):
        assert on(devices, own_index)((), jnp.zeros(4)).tolist() == [40, 41, 42, 43]


def test_scattered_sums_come_back_to_their_shards():
    """The gradient of a gather: each shard's rows, of the sum over shards."""

    def sums(_, x):
        scattered = jax.lax.psum_scatter(jnp.outer(x, jnp.arange(4.0)).T, "data", tiled=True)
        flat = jax.lax.psum_scatter(jnp.outer(jnp.arange(4.0), x), "data")
        return jax.lax.all_gather((scattered[0, 0], flat[0]), "data")

    for devices in (1, 2):
        found = on(devices, sums)((), jnp.arange(1.0, 5.0))
        np.testing.assert_array_equal(found, [[0, 10, 20, 30]] * 2)


def test_keys_may_pass_from_phase_to_phase():
    def draws(_, x):
        key = jax.random.key(x[0].astype(jnp.uint32))
        total = jax.lax.psum(x[0], "data")
        return jax.lax.all_gather(jax.random.normal(key) + total, "data")

    expected = [jax.random.normal(jax.random.key(s)) + 6 for s in range(4)]
    np.testing.assert_allclose(on(2, draws)((), jnp.arange(4.0)), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _, x: x.sum(), "a result differs between shards"),
        (lambda _, x: jax.lax.pmax(x, "data"), "the collective pmax is not supported"),
        (
            lambda _, x: jax.lax.ppermute(x, "data", [(0, 1)]),
            "the collective ppermute is not supported",
        ),
        (
            lambda _, x: jax.lax.scan(lambda c, _: (jax.lax.psum(c, "data"), None), x, length=2),
            "a collective or the shard index is used in a scan",
        ),
        (
            lambda _, x: jax.lax.cond(True, lambda: jax.lax.psum(x, "data"), lambda: x),
            "a collective or the shard index is used in a cond",
        ),
        (
            lambda _, x: jax.lax.psum(x, "data", axis_index_groups=[[0, 1], [2, 3]]),
            "a psum is over more or less than 'data'",
        ),
    ],
)
def test_what_cannot_be_exact_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        on(2, function)((), jnp.arange(4.0))


@pytest.mark.parametrize("length", [1, 3])
def test_scan_and_map_are_those_of_jax(length):
    def body(carry, factor, i):
        return carry * factor + i, {"before": carry, "key": jax.random.key(i)}

    last, found = jax.jit(lambda: exact_sums.scan(body, jnp.float32(1.0), 3.0, length))()
    expected_last, expected = jax.lax.scan(
        lambda c, i: body(c, 3.0, i), jnp.float32(1.0), jnp.arange(length)
    )
    assert last == expected_last
    np.testing.assert_array_equal(found["before"], expected["before"])
    assert (found["key"] == expected["key"]).all()
    stacked = {"x": jnp.arange(6.0).reshape(length, -1)}
    chex.assert_trees_all_equal(
        exact_sums.map(lambda t: t["x"].sum(), stacked), stacked["x"].sum(axis=1)
    )


SIZES = {"image_size": 16, "patch_size": 4, "channels": 3, "width": 16, "depth": 1, "heads": 2}
HEADS = {"encoder": ViTConfig(**SIZES), "projector_width": 16, "projector_dim": 8}
RESNET = {
    "encoder": ResNetConfig(image_size=16, depth=10, stem_width=4, stem="small"),
    "latent": "mean",
}
FLIPS = {name: Augment(flip=True) for name in ("view_a", "view_b", "local")}
PAIR, THREE = MultiCrop(2, 0, 8, **FLIPS), MultiCrop(2, 1, 8, **FLIPS)
KINDS = {
    "ijepa": IJepa(vit=ViTConfig(**SIZES), mlp_width=16),
    "lejepa": LeJepa(**HEADS, projector_layers=2, sigreg_slices=32, views=PAIR),
    "lejepa_packed": LeJepa(
        **HEADS, projector_layers=2, sigreg_slices=32, views=THREE, pack_views=True
    ),
    "masked_lejepa": MaskedLeJepa(vit=ViTConfig(**SIZES), mlp_width=16, sigreg_slices=16),
    "vicreg": VicReg(**HEADS, projector_layers=2, views=PAIR),
    "vicreg_resnet": VicReg(**HEADS | RESNET, projector_layers=2, views=PAIR),
    "infonce": InfoNce(**HEADS, projector_layers=1, views=PAIR),
    "mae": Mae(vit=ViTConfig(**SIZES), decoder_width=8, decoder_depth=1, decoder_heads=2),
}


MESHES = ((1, 2, 0), (1, 2, 4), (2, 2, 4), (4, 1, 4), (8, 2, 4))  # devices, steps, shards
SLOW = {"vicreg_resnet": MESHES[:2] + MESHES[3:4]}  # a minute or more to compile on each


@pytest.mark.nightly
@pytest.mark.parametrize("name", KINDS)
def test_every_objective_has_the_same_bits_on_any_mesh(name):
    images = np.random.default_rng(0).integers(0, 256, (2, 40, 16, 16, 3), np.uint8)
    hparams = build.make_hparams([3, 4], 20, **{"lambda": 0.05})
    states, first = [], []
    for devices, steps_per_call, shards in SLOW.get(name, MESHES):
        mesh = sharding.make_mesh(2, 8, jax.devices()[:devices])
        settings = KINDS[name], AdamW(), 20, 8, steps_per_call, mesh, "map"
        trainer = (
            exact.ExactTrainer(*settings, shards=shards) if shards else agents.Trainer(*settings)
        )
        opening = Opening(
            (0, 1), np.arange(40), Augment(flip=True), mesh, hparams["seed"], 8, steps_per_call,
            20, 40, None, None,
        )  # fmt: skip
        data = ResidentFeed(images, opening).at(0)
        state = trainer.init(hparams)
        for call in range(4 // steps_per_call):
            state, metrics = trainer.step(state, data, hparams)
            first += [jax.tree.map(lambda x: x[:, 0], metrics)] if call == 0 else []
        states.append(jax.device_get(state))
    chex.assert_trees_all_close(first[1], first[0], rtol=1e-4, atol=1e-5)  # as without exact sums
    for state in states[2:]:
        chex.assert_trees_all_equal(state, states[1])
