"""Meshes, global arrays on several devices and processes, and reductions over the batch."""

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from socialjepa_jax.errors import InputError

PyTree = Any


@dataclass(frozen=True)
class Reduce:
    """Reductions over the batch that are global whatever the number of devices.

    On one device (`axis_name=None`) they are plain reductions; inside `shard_map` they add a
    collective over the named mesh axis. A loss written with them is the same loss on any mesh.
    """

    axis_name: str | None = None

    def mean(self, x: jax.Array) -> jax.Array:
        """Mean over the leading axis of the global array: [B, ...] -> [...]."""
        local = jnp.mean(x, axis=0)
        return local if self.axis_name is None else jax.lax.pmean(local, self.axis_name)

    def sum(self, x: jax.Array) -> jax.Array:
        """Sum over the leading axis of the global array: [B, ...] -> [...]."""
        local = jnp.sum(x, axis=0)
        return local if self.axis_name is None else jax.lax.psum(local, self.axis_name)

    def gather(self, x: jax.Array) -> jax.Array:
        """The rows of all shards in order: [B_local, ...] -> [B, ...]."""
        if self.axis_name is None:
            return x
        return jax.lax.all_gather(x, self.axis_name, tiled=True)


ONE_DEVICE = Reduce()  # the default of losses on arrays

AGENT, DATA = "agent", "data"  # the two mesh axes, everywhere
SUMS = ("float32", "bfloat16")  # types in which gradients are summed over devices
STEPS = P(AGENT, None, DATA)  # of arrays [A, S, B, ...]: the batches of several steps


def make_mesh(num_agents: int, batch_size: int, devices: Sequence[jax.Device]) -> Mesh:
    """Arranges devices over ('agent', 'data'), with the largest agent axis that divides both.

    Args:
        num_agents: agents trained by the program.
        batch_size: each agent's global batch, split over the 'data' axis.
        devices: the devices to use, in order.

    Raises:
        InputError: if the batch cannot be split over the devices that share an agent.
    """
    across_agents = math.gcd(num_agents, len(devices))
    across_data = len(devices) // across_agents
    if batch_size % across_data:
        raise InputError(
            f"batch_size={batch_size} cannot be split over {across_data} devices "
            f"({len(devices)} devices for {num_agents} agents)"
        )
    grid = np.asarray(devices).reshape(across_agents, across_data)
    return Mesh(grid, (AGENT, DATA), axis_types=(AxisType.Auto, AxisType.Auto))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def spread(x: jax.Array, dtype: str) -> jax.Array:
    """Casts a replicated array to vary over 'data', inside `shard_map`.

    Its gradient is rounded to `dtype` on every shard and summed in it over the shards.
    """
    return jax.lax.pcast(x, DATA, to="varying")


def _spread_forward(x: jax.Array, dtype: str) -> tuple[jax.Array, None]:
    return spread(x, dtype), None


def _spread_backward(dtype: str, _: None, gradient: jax.Array) -> tuple[jax.Array]:
    return (jax.lax.psum(gradient.astype(dtype), DATA).astype(gradient.dtype),)


spread.defvjp(_spread_forward, _spread_backward)


def by_batch(mesh: Mesh) -> NamedSharding:
    """Sharding of arrays [A, S, B, ...]: agents, steps, and batches that are split over 'data'."""
    return NamedSharding(mesh, STEPS)


def own_rows(tree: PyTree, axis_name: str = DATA) -> PyTree:
    """This shard's part of arrays [B, ...] of the global batch, inside `shard_map`."""
    shards, index = jax.lax.axis_size(axis_name), jax.lax.axis_index(axis_name)

    def cut(x: jax.Array) -> jax.Array:
        local = len(x) // shards
        return jax.lax.dynamic_slice_in_dim(x, index * local, local)

    return jax.tree.map(cut, tree)


def local_block(
    sharding: NamedSharding, shape: Sequence[int], devices: Collection[jax.Device] | None = None
) -> tuple[tuple[int, int], ...]:
    """The part of a global array that a process holds: (first, end) along each axis.

    Args:
        sharding: of the array.
        shape: of the array.
        devices: of the process; None: of this one.
    """
    own = sharding.addressable_devices if devices is None else devices
    held = sharding.devices_indices_map(tuple(shape))
    ranges = [[part.indices(size)[:2] for part, size in zip(held[device], shape)] for device in own]
    return tuple(
        (min(first for first, _ in axis), max(end for _, end in axis)) for axis in zip(*ranges)
    )


def by_agent(mesh: Mesh) -> NamedSharding:
    """Sharding of arrays with a leading agent axis, replicated over 'data'."""
    return NamedSharding(mesh, P(AGENT))


def put(tree: PyTree, sharding: jax.sharding.Sharding) -> PyTree:
    """Puts host arrays, the same in every process, on the devices of a mesh.

    Every process puts what its own devices hold, and nothing is sent.
    """
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)

    def put_one(leaf: Any) -> jax.Array:
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

    return jax.tree.map(put_one, tree)


def fetch(tree: PyTree) -> PyTree:
    """Returns the arrays on the host, whole in every process."""
    if _is_local(tree):
        return jax.device_get(tree)
    return to_host(copy(tree))


def copy(tree: PyTree) -> PyTree:
    """Copies arrays on the devices; arrays shared by several processes become whole in each.

    It is made when its turn comes among the steps, and the caller does not wait for it.
    """
    if _is_local(tree):
        return _copy(tree)
    return _gatherer(jax.tree.leaves(tree)[0].sharding.mesh)(tree)


def to_host(copied: PyTree) -> PyTree:
    """Converts the result of `copy` to NumPy arrays; safe in any thread."""
    if _is_local(copied):
        return jax.device_get(copied)
    return jax.tree.map(lambda x: np.asarray(x.addressable_data(0)), copied)


def _is_local(tree: PyTree) -> bool:
    return all(x.is_fully_addressable for x in jax.tree.leaves(tree) if isinstance(x, jax.Array))


@jax.jit
def _copy(tree: PyTree) -> PyTree:
    return jax.tree.map(jnp.copy, tree)


@functools.cache
def _gatherer(mesh: Mesh) -> Any:
    return jax.jit(_copy, out_shardings=NamedSharding(mesh, P()))
