"""Worlds with known latents, drawn on the device.

A batch is a pure function of (world, key). The values that differ between the runs of a sweep
(correlation, shape, mixing weights) are a pytree of arrays, so each agent of one compiled step can
have its own world.

Shape key: N samples, D latents, X observed features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from socialjepa_jax.dynamics.stationary import Process
from socialjepa_jax.errors import InputError, check_non_negative, check_one_of, check_positive
from socialjepa_jax.identifiability.mixings import Mixing

WorldParams = dict[str, Any]


class Sample(NamedTuple):
    """Pairs of one transition and their observations.

    Attributes:
        z: f32[N, D], latents.
        x: f32[N, X], their observations g(z).
        z_prime: f32[N, D], the latents of the second views.
        x_prime: f32[N, X], the second views.
    """

    z: jax.Array
    x: jax.Array
    z_prime: jax.Array
    x_prime: jax.Array


@dataclass(frozen=True)
class LatentWorld:
    """Pairs of a latent process seen through a mixing.

    Attributes:
        process: process of the latents.
        mixing: map g from latents to observations.
        noised: "second": training pairs (z, z'); "both": two transitions of one z, as the
            identifiability paper's code trains.
        finite: draw batches with replacement from a fixed set of pairs, of the size of the world's
            parameter `samples`, instead of fresh pairs.
    """

    process: Process
    mixing: Mixing
    noised: str = "second"
    finite: bool = False

    def __post_init__(self) -> None:
        check_one_of(("second", "both"), noised=self.noised)
        if self.process.dim != self.mixing.dim:
            raise InputError(f"process.dim={self.process.dim} must be mixing.dim={self.mixing.dim}")

    def params(self, process: Any, seed: int, samples: int | None = None) -> WorldParams:
        """Returns the arrays of one world.

        Args:
            process: arrays from `process.params`.
            seed: seed of the mixing's weights and of the fixed set of pairs.
            samples: size of that set; required if and only if the world is finite.
        """
        check_non_negative(seed=seed)
        if self.finite != (samples is not None):
            raise InputError(f"samples={samples} in a world with finite={self.finite}")
        world = {"process": process, "mixing": self.mixing.init(jax.random.key(seed))}
        if samples is None:
            return world
        check_positive(samples=samples)
        return world | {"seed": jnp.uint32(seed), "samples": jnp.int32(samples)}

    def batch(self, params: WorldParams, key: jax.Array, num: int) -> dict[str, jax.Array]:
        """Draws training pairs: 'views' f32[num, 2, X] and 'index' i32[num]."""
        if self.finite:
            index = jax.random.randint(key, (num,), 0, params["samples"])
            data_key = jax.random.fold_in(jax.random.key(params["seed"]), 1)
            keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(data_key, index)
            views = jax.vmap(lambda k: self._latent_views(params, k, 1))(keys)
            first, second = (z[:, 0] for z in views)
        else:
            index = jnp.arange(num)
            first, second = self._latent_views(params, key, num)
        observed = [self.mixing.forward(params["mixing"], z) for z in (first, second)]
        return {"views": jnp.stack(observed, axis=1), "index": index}

    def _latent_views(
        self, params: WorldParams, key: jax.Array, num: int
    ) -> tuple[jax.Array, jax.Array]:
        return self.process.views(params["process"], key, num, self.noised)

    def sample(self, params: WorldParams, key: jax.Array, num: int) -> Sample:
        """Draws fresh pairs of one transition with their latents, for evaluation."""
        z, z_prime = self.process.views(params["process"], key, num)
        x, x_prime = (self.mixing.forward(params["mixing"], v) for v in (z, z_prime))
        return Sample(z, x, z_prime, x_prime)


def stack(worlds: Sequence[WorldParams]) -> WorldParams:
    """Stacks the worlds of agents: leaves get a leading agent axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
