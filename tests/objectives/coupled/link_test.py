"""The map between two learning models against `alignment.fit` on the pairs that it holds."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax import alignment
from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives.coupled import link as links
from socialjepa_jax.objectives.coupled.link import Link
from socialjepa_jax.sharding import Reduce

B, D, E = 16, 3, 4
FOREVER = Link(memory=10**9, every=4, ridge=1e-3)


@functools.cache
def pairs(seed=0, batches=8):
    """Latents [batches, B, D] and [batches, B, E], far from zero and noisy."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(batches, B, D)) * [1.0, 3.0, 0.2] + [5.0, -20.0, 0.0]
    y = x @ rng.normal(size=(D, E)) + 0.3 * rng.normal(size=(batches, B, E)) + 7.0
    return x.astype(np.float32), y.astype(np.float32)


def after(link, x, y):
    state = link.init(jax.random.key(0), D, E)[1]
    for step, (x_BD, y_BE) in enumerate(zip(x, y)):
        state = link.update(state, x_BD, y_BE, jnp.int32(step), Reduce())
    return state


def test_w_is_the_ridge_map_of_all_pairs_that_it_has_seen():
    x, y = pairs()
    state = after(FOREVER, x, y)
    flat_x, flat_y = x.reshape(-1, D), y.reshape(-1, E)
    fitted = alignment.fit(flat_x, flat_y, ridge=FOREVER.ridge * len(flat_x))
    got = FOREVER.forward({}, state, jnp.asarray(flat_x))
    np.testing.assert_allclose(got, fitted.forward(flat_x), atol=2e-3)
    back = FOREVER.backward(state, jnp.asarray(flat_y))
    np.testing.assert_allclose(back, fitted.backward(flat_y, "regression"), atol=5e-3)
    assert state["ready"] == 1.0
    assert state["count"] == flat_x.shape[0]


def test_old_pairs_are_forgotten_at_the_rate_of_the_memory():
    """Weighted least squares with weights that fall by 1 - B / memory from batch to batch."""
    link = dataclasses.replace(FOREVER, memory=64, every=1, ridge=1e-9)
    (x, y), (other_x, _) = pairs(), pairs(seed=1)
    state = after(link, np.concatenate([other_x, x]), np.concatenate([y[::-1], y]))
    weight = np.repeat((1 - B / 64) ** np.arange(15, -1, -1.0), B)
    rows = np.concatenate([other_x, x]).reshape(-1, D).astype(np.float64)
    targets = np.concatenate([y[::-1], y]).reshape(-1, E).astype(np.float64)
    design = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    root = np.sqrt(weight)[:, None]
    expected = np.linalg.lstsq(root * design, root * targets, rcond=None)[0]
    np.testing.assert_allclose(state["w"], expected[:D].T, rtol=0.01, atol=0.01)
    assert state["count"] == pytest.approx(weight.sum(), rel=1e-5)


def test_w_waits_for_five_pairs_a_feature_and_for_its_turn():
    x, y = pairs()
    link = dataclasses.replace(FOREVER, every=1)
    assert after(link, x[:1], y[:1])["ready"] == 0.0  # 16 pairs, 20 needed
    ready = after(link, x[:2], y[:2])
    assert ready["ready"] == 1.0
    rare = dataclasses.replace(FOREVER, every=3)
    assert after(rare, x[:2], y[:2])["ready"] == 0.0
    third, fourth = after(rare, x[:3], y[:3]), after(rare, x[:4], y[:4])
    np.testing.assert_array_equal(third["w"], fourth["w"])
    assert np.abs(np.asarray(fourth["mean"]) - np.asarray(third["mean"])).max() > 0


def test_a_batch_smaller_than_the_features_is_not_interpolated():
    """With 16 pairs and 24 features a map of the batch alone would have no residual."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(20, B, 24)).astype(np.float32) for _ in range(2))
    link = Link(memory=320, every=1)
    state = link.init(jax.random.key(0), 24, 24)[1]
    for step in range(19):
        state = link.update(state, x[step], y[step], jnp.int32(step), Reduce())
    predicted = link.forward({}, state, x[19])
    found = links.fresh(predicted, x[19], y[19], state, Reduce())
    assert found["link/residual"] > 0.9
    assert found["link/r2"] < 0.1


def test_fresh_statistics_are_those_of_numpy():
    x, y = (np.asarray(part[0], np.float64) for part in pairs())
    predicted = y + 0.5
    state = {"ready": jnp.ones(())}
    found = links.fresh(*(jnp.asarray(v, jnp.float32) for v in (predicted, x, y)), state, Reduce())
    assert found["link/residual"] == pytest.approx(0.25, rel=1e-4)
    assert found["link/r2"] == pytest.approx(1 - 0.25 / y.var(0).mean(), rel=1e-3)
    assert found["link/norm_x"] == pytest.approx(np.sqrt((x**2).sum(1).mean()), rel=1e-4)
    values = np.linalg.eigvalsh(np.cov(y.T))
    assert found["link/rank_y"] == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-3)


def test_shuffled_pairs_belong_to_the_next_row_and_say_nothing():
    x, y = pairs()
    link = dataclasses.replace(FOREVER, kind="shuffled")
    np.testing.assert_array_equal(link.partners(jnp.asarray(y[0]), Reduce())[1:], y[0][:-1])
    moved = [link.partners(jnp.asarray(part), Reduce()) for part in y]
    state = after(link, x, moved)
    predicted = link.forward({}, state, x[0])
    assert links.fresh(predicted, x[0], moved[0], state, Reduce())["link/r2"] < 0.3


@pytest.mark.parametrize("kind", ["identity", "random"])
def test_fixed_maps_are_orthogonal_and_never_refitted(kind):
    link = Link(kind=kind)
    params, state = link.init(jax.random.key(1), D, D)
    assert params == {} and state["ready"] == 1.0
    np.testing.assert_allclose(state["w"] @ state["w"].T, np.eye(D), atol=1e-6)
    assert (kind == "identity") == np.allclose(state["w"], np.eye(D))
    x = pairs()[0]
    assert link.update(state, x[0], x[0], jnp.int32(9), Reduce()) is state
    again = link.backward(state, link.forward({}, state, x[0]))
    np.testing.assert_allclose(again, x[0], atol=1e-4)


def test_a_learned_map_is_the_only_one_with_gradients():
    x, y = (jnp.asarray(part[0]) for part in pairs())

    def term(link, params, state, x):
        return links.squared_distance(link.forward(params, state, x), y, Reduce())

    for link in (Link(kind="learned"), Link()):
        params, state = link.init(jax.random.key(1), D, E)
        state = state | {"w": jnp.ones((E, D))}
        gradient = jax.grad(term, argnums=(1, 2, 3))
        of_params, of_state, of_x = gradient(link, params, state, x)
        assert all(np.abs(g).max() == 0 for g in jax.tree.leaves(of_state))
        assert np.abs(of_x).max() > 0
        sizes = [np.abs(g).max() for g in jax.tree.leaves(of_params)]
        assert sizes == [] if link.kind == "closed" else min(sizes) > 0


@pytest.mark.parametrize("kind", ["closed", "shuffled"])
def test_four_devices_hold_the_moments_of_one(kind):
    link = dataclasses.replace(FOREVER, kind=kind, every=1)
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
    x, y = pairs()
    start = link.init(jax.random.key(0), D, E)[1]

    def step(reduce, state, x_BD, y_BE, number):
        return link.update(state, x_BD, link.partners(y_BE, reduce), number, reduce)

    sharded = jax.jit(
        jax.shard_map(
            functools.partial(step, Reduce("data")),
            mesh=mesh,
            in_specs=(P(), P("data"), P("data"), P()),
            out_specs=P(),
        )
    )
    one, four = start, start
    for number in range(4):
        one = step(Reduce(), one, x[number], y[number], jnp.int32(number))
        four = sharded(four, x[number], y[number], jnp.int32(number))
    for name in one:
        np.testing.assert_allclose(four[name], one[name], rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "magic"}, "kind='magic'"),
        ({"memory": 0}, "memory=0"),
        ({"every": 0}, "every=0"),
        ({"ridge": 0.0}, "ridge=0.0"),
    ],
)
def test_refuses_settings_that_cannot_be(fields, message):
    with pytest.raises(InputError, match=message):
        Link(**fields)


def test_refuses_widths_that_do_not_fit():
    with pytest.raises(InputError, match="memory=100 must be at least 120"):
        Link(memory=100).check_widths(24, 3)
    with pytest.raises(InputError, match="equal widths, these are 3 and 4"):
        Link(kind="identity").check_widths(3, 4)
    Link(kind="learned", memory=1).check_widths(24, 3)
