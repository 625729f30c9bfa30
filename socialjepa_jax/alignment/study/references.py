"""What the linear map is measured against: a non-linear stitch and relative representations.

Shape suffixes: N samples, D features of x, E features of y, H hidden units, A anchors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import solve
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.alignment.neighbourhoods import unit_rows
from socialjepa_jax.errors import check_positive

Params = dict[str, jax.Array]


@dataclass(frozen=True, eq=False)
class Stitch:
    """A linear map and a small MLP that adds what the map leaves: y ~ W x + m(x), standardised.

    Attributes:
      linear_map: the linear part, kept as it was fitted.
      params: float32 weights of the MLP.
      epochs: full-batch steps taken; 0 if the MLP never helped on held-out pairs.
    """

    linear_map: LinearMap
    params: Params
    epochs: int

    def forward(self, x: ArrayLike) -> Float64:
        """Carries raw latents x [N, D] into the raw space of y: [N, E]."""
        zx_ND = self.linear_map.standardize_x(x)
        extra_NE = np.asarray(_mlp(self.params, jnp.asarray(zx_ND, jnp.float32)), np.float64)
        return self.linear_map.forward(x) + extra_NE * self.linear_map.y_scale


def fit_stitch(
    linear_map: LinearMap,
    x: ArrayLike,
    y: ArrayLike,
    *,
    hidden: int = 256,
    epochs: int = 300,
    learning_rate: float = 1e-3,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> Stitch:
    """Fits an MLP with one hidden layer to the residual of a linear map.

    A tenth of the groups is held out; the weights that do best on it are kept, so that the
    stitch is worse than the linear map only by chance.

    Args:
      linear_map: fitted on the same pairs.
      x, y: raw latents [N, D] and [N, E].
      hidden: width.
      epochs: full-batch AdamW steps at most.
      learning_rate: peak of a cosine schedule.
      groups: [N], what stays together in the held-out part.
      seed: of weights and split.
    """
    check_positive(hidden=hidden, epochs=epochs, learning_rate=learning_rate)
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    zx = linear_map.standardize_x(x_ND)
    residual = linear_map.standardize_y(y_NE) - zx @ linear_map.w.T
    groups_N = np.arange(len(zx)) if groups is None else np.asarray(groups)
    held = solve.group_folds(groups_N, 10, seed) == 0
    part = [jnp.asarray(a, jnp.float32) for a in (zx[~held], residual[~held])]
    check = [jnp.asarray(a, jnp.float32) for a in (zx[held], residual[held])]
    params, best = _train(
        _init(seed, zx.shape[1], hidden, residual.shape[1]), part, check, epochs, learning_rate
    )
    return Stitch(linear_map, params, int(best))


def _init(seed: int, d: int, hidden: int, e: int) -> Params:
    w1_DH = jax.random.normal(jax.random.key(seed), (d, hidden)) * np.sqrt(2 / d)
    return {
        "w1": w1_DH,
        "b1": jnp.zeros(hidden),
        "w2": jnp.zeros((hidden, e)),  # starts as the linear map itself
        "b2": jnp.zeros(e),
    }


def _mlp(params: Params, x_ND: jax.Array) -> jax.Array:
    hidden_NH = jax.nn.gelu(x_ND @ params["w1"] + params["b1"][None])
    return hidden_NH @ params["w2"] + params["b2"][None]


@partial(jax.jit, static_argnames="epochs")
def _train(
    params: Params, part: list[jax.Array], check: list[jax.Array], epochs: int, rate: float
) -> tuple[Params, jax.Array]:
    optimizer = optax.adamw(optax.cosine_decay_schedule(rate, epochs), weight_decay=1e-2)

    def loss(params: Params, pairs: list[jax.Array]) -> jax.Array:
        return jnp.mean((_mlp(params, pairs[0]) - pairs[1]) ** 2)

    def step(carry: tuple, epoch: jax.Array) -> tuple[tuple, None]:
        params, state, best, best_loss, best_epoch = carry
        updates, state = optimizer.update(jax.grad(loss)(params, part), state, params)
        params = optax.apply_updates(params, updates)
        held_loss = loss(params, check)
        better = held_loss < best_loss
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), params, best)
        best_epoch = jnp.where(better, epoch, best_epoch)
        return (params, state, best, jnp.minimum(held_loss, best_loss), best_epoch), None

    start = (params, optimizer.init(params), params, loss(params, check), jnp.int32(0))
    end, _ = jax.lax.scan(step, start, 1 + jnp.arange(epochs, dtype=jnp.int32))
    return end[2], end[4]


def relative(z: ArrayLike, anchors: ArrayLike) -> Float64:
    """Relative representation (Moschella et al. 2023): cosines to the anchors, [N, A].

    Both are centred by the anchors' mean first, which the original leaves out: a common offset
    would make all cosines alike.

    Args:
      z: raw latents [N, D].
      anchors: raw latents [A, D] of the same space, of states that the other space also has.
    """
    anchors_AD = as_latents(anchors, "anchors")
    centre_D = anchors_AD.mean(axis=0)
    return unit_rows(as_latents(z, "z") - centre_D) @ unit_rows(anchors_AD - centre_D).T
