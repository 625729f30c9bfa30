"""Maps between latent spaces without any pair of observations, from shared actions.

Each agent fits the response of its own latents to known actions, h' = A h + B a, on its own walk.
Actions that move the world alike give both agents' B, and W = polar(B2 B1^T) is the orthogonal map
that carries one response into the other. With fewer actions than features A must help: the joint
map and the map of axes use both, and need rates that differ.

The estimators stand here and not beside the worlds of `identifiability`, since they know nothing of
true latents: all they see is what two agents have. What needs no actions either is
`identifiability.separation`.

Shape suffixes: N steps, D features of x, E features of y, M actions, L state dimensions.
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
    w_ED = partial_isometry(b2_EM @ b1_DM.T, b1_DM.shape[1])
    return _map(w_ED, x_mean, y_mean, len(np.asarray(x_actions)))


def _map(w_ED: Float64, x_mean: ArrayLike, y_mean: ArrayLike, steps: int) -> LinearMap:
    """Returns the map whose way back is the transpose."""
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
        n_train=steps,
        kappa_max=1e6,
    )


def partial_isometry(m_ED: ArrayLike, rank: int) -> Float64:
    """Returns U V^T of the `rank` largest singular values, the orthogonal polar factor if all."""
    u, s, vt = np.linalg.svd(np.asarray(m_ED, np.float64), full_matrices=False)
    rank = min(len(s), rank)
    return u[:, :rank] @ vt[:rank]


def transition(walk: ArrayLike, mean: ArrayLike) -> Float64:
    """Fits h' = A h to one walk without known actions: f64[D, D]; see `response`."""
    h_ND = as_latents(walk, "walk") - np.asarray(mean, np.float64)
    return np.linalg.lstsq(h_ND[:-1], h_ND[1:], rcond=None)[0].T


def map_of_axes(x: tuple[ArrayLike, ArrayLike], y: tuple[ArrayLike, ArrayLike]) -> Float64:
    """Matches the eigenvectors of both A, in the order of their rates, with signs from B.

    The rates of a reversible world differ or the axes mean nothing; a single action fixes all signs
    if it moves every axis.

    Args:
        x, y: (A, B) of each agent, [D, D] and [D, M].

    Returns:
        Orthogonal f64[D, D].
    """
    (a1, b1), (a2, b2) = _symmetric(x, y)
    v1, v2 = np.linalg.eigh(a1)[1], np.linalg.eigh(a2)[1]
    signs = np.where(((v1.T @ b1) * (v2.T @ b2)).sum(1) < 0, -1.0, 1.0)
    return (v2 * signs) @ v1.T


def joint_map(
    x: tuple[ArrayLike, ArrayLike], y: tuple[ArrayLike, ArrayLike], iterations: int = 2_000
) -> Float64:
    """Minimises ||W B1 - B2||^2 + ||W A1 W^T - A2||^2 over orthogonal W; A1, A2 as symmetric parts.

    The objective is convex in W after a shift of the eigenvalues that changes nothing on O(D), so
    W <- polar(gradient) never makes it worse (Journee et al., "Generalized Power Method", 2010,
    section 3). It starts from the axes with every combination of signs, and the best end is kept.

    Args:
        x, y: (A, B) of each agent, [D, D] and [D, M].
        iterations: at most, from every start.

    Returns:
        Orthogonal f64[D, D].
    """
    (a1, b1), (a2, b2) = _symmetric(x, y)
    dim = len(a1)
    cross = b2 @ b1.T
    shift_1, shift_2 = (a - np.linalg.eigvalsh(a)[0] * np.eye(dim) for a in (a1, a2))
    v1, v2 = np.linalg.eigh(a1)[1], np.linalg.eigh(a2)[1]
    signs_SD = 1 - 2.0 * ((np.arange(2**dim)[:, None] >> np.arange(dim)) & 1)
    w_SDD = (v2[None] * signs_SD[:, None]) @ v1.T
    for _ in range(iterations):
        u, _, vt = np.linalg.svd(cross + 2.0 * shift_2 @ w_SDD @ shift_1)
        w_SDD, before = u @ vt, w_SDD
        if np.abs(w_SDD - before).max() < 1e-10:
            break
    agree = (w_SDD * cross).sum((1, 2)) + ((w_SDD @ a1) * (a2 @ w_SDD)).sum((1, 2))
    return w_SDD[np.argmax(agree)]


def _symmetric(
    x: tuple[ArrayLike, ArrayLike], y: tuple[ArrayLike, ArrayLike]
) -> list[tuple[Float64, Float64]]:
    """Returns (symmetric part of A, B) of both agents."""
    found: list[tuple[Float64, Float64]] = []
    for a, b in (x, y):
        a_DD, b_DM = np.asarray(a, np.float64), np.asarray(b, np.float64)
        found.append((0.5 * (a_DD + a_DD.T), b_DM))
    if found[0][1].shape != found[1][1].shape:
        raise InputError(
            f"responses of {found[0][1].shape} and {found[1][1].shape}: agents need as many "
            "features and as many actions as one another"
        )
    return found


def expected_loss(dim: int, residual: float, steps: int, gain: float) -> float:
    """Returns by how much noise in both B lowers the R2 of W = polar(B2 B1^T), to first order.

    (n - 1) sigma^2 / (T g^2): the entries of B have the variance sigma^2 / T, the polar factor
    keeps the antisymmetric part of both agents' errors, n (n - 1) entries of variance
    sigma^2 / (T g^2), and R2 loses their sum over n.

    Args:
        dim: features n, as many as actions.
        residual: variance sigma^2 of a latent's step that A h + B a leaves.
        steps: T of each agent.
        gain: squared length g^2 of a column of B.
    """
    return (dim - 1) * residual / (steps * gain)


def motor_readout(b: ArrayLike, covariance: ArrayLike, push: ArrayLike) -> Float64:
    """Returns the readout R of the state in motor coordinates, z ~ R (h - mean); no label is used.

    By Stein's lemma any encoder of a standard normal state has B = L P, where L = Cov(h, z) is its
    linear part and P what the actions add to the state; the best linear readout is L^T Cov(h)^-1.

    Args:
        b: [D, M] of `response`, with as many actions as state dimensions.
        covariance: [D, D] of h, for example over passive states.
        push: P [L, M], what an action adds to the state; it defines the coordinates.

    Returns:
        f64[L, D].
    """
    linear_DL = np.asarray(b, np.float64) @ np.linalg.inv(np.asarray(push, np.float64))
    return np.linalg.lstsq(np.asarray(covariance, np.float64), linear_DL, rcond=1e-9)[0].T
