"""How a computation sees several devices: the mesh and the reductions over the global batch."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


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
