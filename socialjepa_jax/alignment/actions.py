"""A map between latent spaces without any pair of observations, from shared actions.

Each agent fits the response of its own latents to known actions, h' = A h + B a, on its own walk.
Actions that move the world alike give both agents' B, and W = polar(B2 B1^T) is the orthogonal map
that carries one response into the other.

Shape suffixes: N steps, D features of x, E features of y, M actions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64, as_latents
from socialjepa_jax.errors import InputError


def response(walk: ArrayLike, actions: ArrayLike, mean: ArrayLike) -> tuple[Float64, Float64]:
    """Fits h' = A h + B a by least squares to one walk.

    Args:
        walk: latents [N + 1, D] of successive states.
        actions: [N, M]; action n leads from state n to n + 1.
        mean: [D], of the latents over the stationary law. The mean of a short walk would be a
            poor estimate: a walk of 100 steps at rho = 0.9 has about five independent states.

    Returns:
        A f64[D, D] and B f64[D, M].

    Raises:
        InputError: the walk has not one state more than there are actions, or too few.
    """
    h, a = as_latents(walk, "walk") - np.asarray(mean, np.float64), as_latents(actions, "actions")
    if len(h) != len(a) + 1:
        raise InputError(f"a walk of {len(h)} states needs {len(h) - 1} actions, got {len(a)}")
    if len(a) < h.shape[1] + a.shape[1]:
        raise InputError(f"{len(a)} actions cannot fit {h.shape[1] + a.shape[1]} coefficients")
    weights = np.linalg.lstsq(np.concatenate([h[:-1], a], axis=1), h[1:], rcond=None)[0].T
    return weights[:, : h.shape[1]], weights[:, h.shape[1] :]


def fit_by_actions(
    x_walk: ArrayLike,
    x_actions: ArrayLike,
    y_walk: ArrayLike,
    y_actions: ArrayLike,
    *,
    x_mean: ArrayLike,
    y_mean: ArrayLike,
) -> LinearMap:
    """Fits y ~ W x from two walks that share no state, only what actions do.

    W is the partial isometry nearest to B2 B1^T, orthogonal if there are as many actions as
    features; with fewer, it carries their span alone.

    Args:
        x_walk, x_actions: latents [N + 1, D] and actions [N, M] of the first agent.
        y_walk, y_actions: [N' + 1, E] and [N', M] of the second.
        x_mean, y_mean: [D] and [E], see `response`.

    Raises:
        InputError: a walk cannot be fitted, or the agents have different numbers of actions.
    """
    b1_DM = response(x_walk, x_actions, x_mean)[1]
    b2_EM = response(y_walk, y_actions, y_mean)[1]
    if b1_DM.shape[1] != b2_EM.shape[1]:
        raise InputError(f"{b1_DM.shape[1]} and {b2_EM.shape[1]} actions are not the same ones")
    u, s, vt = np.linalg.svd(b2_EM @ b1_DM.T, full_matrices=False)
    rank = min(len(s), b1_DM.shape[1])
    w_ED = u[:, :rank] @ vt[:rank]
    x_mean_D, y_mean_E = np.asarray(x_mean, np.float64), np.asarray(y_mean, np.float64)
    return LinearMap(
        w=w_ED,
        w_back=w_ED.T,
        x_mean=x_mean_D,
        x_scale=np.ones_like(x_mean_D),
        y_mean=y_mean_E,
        y_scale=np.ones_like(y_mean_E),
        method="actions",
        ridge=0.0,
        n_train=len(np.asarray(x_actions)),
        kappa_max=1e6,
    )
