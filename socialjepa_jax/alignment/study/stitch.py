"""A small MLP on top of a linear map: a reference for what a non-linear map would add.

AdamW is written out because the alignment tool must run without optax.

Shape suffixes: N samples, D features of x, E features of y, H hidden units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import solve
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64, as_pairs
from socialjepa_jax.errors import as_array, check_positive

_BETA_1, _BETA_2, _EPSILON, _WEIGHT_DECAY = 0.9, 0.999, 1e-8, 1e-2  # of AdamW

Params = dict[str, jax.Array]


@dataclass(frozen=True, eq=False)
class Stitch:
    """A linear map plus an MLP fitted to its residual: y ~ W x + m(x), standardised.

    Attributes:
        linear_map: the linear part, unchanged.
        params: float32 weights of the MLP.
        epochs: epoch of the weights; 0 if the MLP never improved the validation loss.
    """

    linear_map: LinearMap
    params: Params
    epochs: int

    def forward(self, x: ArrayLike) -> Float64:
        """Maps raw latents x [N, D] into the raw space of y: [N, E]."""
        zx_ND = self.linear_map.standardize_x(x)
        residual_NE = np.asarray(_mlp(self.params, jnp.asarray(zx_ND, jnp.float32)), np.float64)
        return self.linear_map.forward(x) + residual_NE * self.linear_map.y_scale


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

    A tenth of the groups validates; the weights with the least validation loss are kept, so the
    stitch is worse than the linear map only by chance.

    Args:
        linear_map: fitted on the same pairs.
        x, y: raw latents [N, D] and [N, E].
        hidden: number of hidden units.
        epochs: maximum number of full-batch AdamW steps.
        learning_rate: initial value of a cosine schedule.
        groups: [N] labels of rows that stay together in the validation split; None: single rows.
        seed: of the initial weights and the split.
    """
    check_positive(hidden=hidden, epochs=epochs, learning_rate=learning_rate)
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    zx = linear_map.standardize_x(x_ND)
    residual = linear_map.standardize_y(y_NE) - zx @ linear_map.w.T
    groups_N = np.arange(len(zx)) if groups is None else as_array(groups, "groups")
    held = solve.group_folds(groups_N, 10, seed) == 0
    train, validation = (
        [jnp.asarray(a[rows], jnp.float32) for a in (zx, residual)] for rows in (~held, held)
    )
    params = _init(seed, zx.shape[1], hidden, residual.shape[1])
    params, epoch = _train(params, train, validation, epochs, learning_rate)
    return Stitch(linear_map, params, int(epoch))


def _init(seed: int, d: int, hidden: int, e: int) -> Params:
    w1_DH = jax.random.normal(jax.random.key(seed), (d, hidden)) * np.sqrt(2 / d)
    return {
        "w1": w1_DH,
        "b1": jnp.zeros(hidden),
        "w2": jnp.zeros((hidden, e)),  # zero output: training starts at the linear map
        "b2": jnp.zeros(e),
    }


def _mlp(params: Params, x_ND: jax.Array) -> jax.Array:
    hidden_NH = jax.nn.gelu(x_ND @ params["w1"] + params["b1"][None])
    return hidden_NH @ params["w2"] + params["b2"][None]


def _loss(params: Params, pairs: list[jax.Array]) -> jax.Array:
    return jnp.mean((_mlp(params, pairs[0]) - pairs[1]) ** 2)


@partial(jax.jit, static_argnames="epochs")
def _train(
    params: Params, train: list[jax.Array], validation: list[jax.Array], epochs: int, rate: float
) -> tuple[Params, jax.Array]:
    """Returns the parameters with the least validation loss, and the epoch that reached them."""

    def step(carry: tuple, epoch: jax.Array) -> tuple[tuple, None]:
        params, averages, best, best_loss, best_epoch = carry
        rate_now = rate * 0.5 * (1 + jnp.cos(jnp.pi * (epoch - 1.0) / epochs))
        params, averages = _adamw(params, averages, jax.grad(_loss)(params, train), epoch, rate_now)
        loss = _loss(params, validation)
        better = loss < best_loss
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), params, best)
        best_epoch = jnp.where(better, epoch, best_epoch)
        return (params, averages, best, jnp.minimum(loss, best_loss), best_epoch), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    start = (params, (zeros, zeros), params, _loss(params, validation), jnp.int32(0))
    end, _ = jax.lax.scan(step, start, 1 + jnp.arange(epochs, dtype=jnp.int32))
    return end[2], end[4]


def _adamw(
    params: Params,
    averages: tuple[Params, Params],
    gradient: Params,
    count: jax.Array,
    rate: jax.Array,
) -> tuple[Params, tuple[Params, Params]]:
    """Takes one step of AdamW (Loshchilov & Hutter 2019); bit for bit that of optax."""
    mean = jax.tree.map(lambda g, m: (1 - _BETA_1) * g + _BETA_1 * m, gradient, averages[0])
    square = jax.tree.map(lambda g, v: (1 - _BETA_2) * g**2 + _BETA_2 * v, gradient, averages[1])
    correction_1, correction_2 = 1 - _BETA_1**count, 1 - _BETA_2**count

    def update(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        step = m / correction_1 / (jnp.sqrt(v / correction_2) + _EPSILON)
        return p + -rate * (step + _WEIGHT_DECAY * p)

    return jax.tree.map(update, params, mean, square), (mean, square)
