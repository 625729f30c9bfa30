import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.sigreg import epps_pulley, sample_directions, sigreg
from socialjepa_jax.sigreg.epps_pulley import reference

P = jax.sharding.PartitionSpec
Z = np.random.default_rng(0).normal(size=(64, 12)).astype(np.float32)
DIRECTIONS = sample_directions(jax.random.key(0), 12, 24)


def mesh_of(num_devices):
    return jax.make_mesh((num_devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


def sharded(function, num_devices, out_specs):
    return jax.jit(
        jax.shard_map(function, mesh=mesh_of(num_devices), in_specs=P("data"), out_specs=out_specs)
    )


debiased = partial(epps_pulley, debiased=True)
nightly = partial(pytest.param, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("num_devices", "statistic", "grad_inside"),
    [(num, epps_pulley, True) for num in (1, 2, 4, 8)]
    + [(4, epps_pulley, False), (4, debiased, True), (4, reference, True)]
    + [nightly(4, reference, False), nightly(8, debiased, False)],
)
def test_value_and_gradient_do_not_depend_on_the_number_of_devices(
    num_devices, statistic, grad_inside
):
    def loss(z, axis_name="data"):
        return sigreg(z, DIRECTIONS, statistic=statistic, axis_name=axis_name)

    if grad_inside:
        step = sharded(jax.value_and_grad(loss), num_devices, (P(), P("data")))
    else:
        step = jax.jit(jax.value_and_grad(sharded(loss, num_devices, P())))
    value, grad = step(Z)
    expected, expected_grad = jax.value_and_grad(partial(loss, axis_name=None))(jnp.asarray(Z))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(grad, expected_grad, atol=1e-5 * np.abs(expected_grad).max(), rtol=0)


@pytest.mark.parametrize("num_devices", [nightly(1), 4])
def test_gradient_of_replicated_parameters(num_devices):
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(12, 12)), jnp.float32)

    def loss(weights, z, axis_name):
        return sigreg(z @ weights, DIRECTIONS, axis_name=axis_name)

    def step(z):
        return jax.value_and_grad(loss)(weights, z, "data")

    value, grad = sharded(step, num_devices, (P(), P()))(Z)
    expected, expected_grad = jax.value_and_grad(loss)(weights, jnp.asarray(Z), None)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(grad, expected_grad, atol=1e-5 * np.abs(expected_grad).max(), rtol=0)


def test_agents_under_vmap_inside_shard_map():
    z_AND = np.stack([Z, 2 * Z, Z - 1])

    def losses(z_AND):
        return jax.vmap(lambda z: sigreg(z, DIRECTIONS, axis_name="data"))(z_AND)

    mesh = mesh_of(4)
    step = jax.shard_map(losses, mesh=mesh, in_specs=P(None, "data"), out_specs=P())
    expected = [sigreg(z, DIRECTIONS) for z in z_AND]
    np.testing.assert_allclose(jax.jit(step)(z_AND), expected, rtol=1e-5)


def test_forward_mode_is_global():
    def directional(z, axis_name="data"):
        def loss(z):
            return sigreg(z, DIRECTIONS, axis_name=axis_name)

        return jax.jvp(loss, (z,), (jnp.cos(z),))[1]

    expected = directional(jnp.asarray(Z), axis_name=None)
    np.testing.assert_allclose(sharded(directional, 4, P())(Z), expected, rtol=1e-5)


def test_one_all_reduce_and_no_all_gather():
    def step(z):
        return jax.value_and_grad(lambda z: sigreg(z, DIRECTIONS, axis_name="data"))(z)

    text = sharded(step, 2, (P(), P("data"))).lower(Z).compile().as_text()
    assert len(re.findall(r"= .* all-reduce(?:-start)?\(", text)) == 1
    assert "all-gather" not in text
    assert "all-to-all" not in text


@pytest.mark.parametrize("num", [256, 1000])
def test_temporary_memory_is_a_few_times_the_projections(num):
    z, directions = np.zeros((num, 16), np.float32), np.zeros((16, 512), np.float32)
    compiled = jax.jit(jax.value_and_grad(sigreg)).lower(z, directions).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= 5.5 * num * 512 * 4


def test_one_trace_for_all_steps():
    traces = []

    @jax.jit
    def step(z, i):
        traces.append(i)
        key = jax.random.fold_in(jax.random.key(0), i)
        return sigreg(z, sample_directions(key, 12, 24))

    values = {float(step(Z, i)) for i in range(3)}
    assert len(traces) == 1
    assert len(values) == 3
