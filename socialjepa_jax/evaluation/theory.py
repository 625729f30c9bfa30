"""Agents in a world in motion, compared with what the theory says of them.

Theorem numbers are those of "When Does LeJEPA Learn a World Model?"; see `identifiability.metrics`.
z are the states and h an agent's latents of them.

Shape key: N states, D latent dimensions, L state dimensions.
"""

import dataclasses

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.alignment.actions import response
from socialjepa_jax.evaluation.evidence import Walks
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.identifiability import metrics


def rotation(x: np.ndarray, y: np.ndarray, states: np.ndarray, split: Split) -> dict[str, float]:
    """Compares W with Q2 Q1^T, where h = Q z is each agent's own rotation of the states.

    Theorem: two agents that identify the state differ by W = Q2 Q1^T. Noise in x shrinks the
    singular values of a regression W. Where the errors of x ~ A1 z and y ~ A2 z are independent,
    W is A2 Cov(z) A1^T Cov(x)^-1; the errors that agents share make it larger.

    Returns:
        'rotation_angle': degrees, the largest angle of the rotation between the orthogonal factor
        of W and Q2 Q1^T; 'w_shrinkage': mean singular value of W on raw latents;
        'w_shrinkage_predicted': the same if errors were independent. Nothing if the widths differ
        from the number of states.
    """
    if not x.shape[1] == y.shape[1] == states.shape[1]:
        return {}
    x, y, states = (z[split.train] for z in (x, y, states))
    q = [metrics.orthogonal_recovery(states, z, center=True)[1] for z in (x, y)]
    raw = alignment.fit(x, y, method="lstsq", standardize="center")
    turn = raw.w_orthogonal @ (q[1] @ q[0].T).T
    angles = np.degrees(np.abs(np.angle(np.linalg.eigvals(turn))))
    a = [metrics.fit_affine(states, z)[0] for z in (x, y)]
    common = a[1] @ np.atleast_2d(np.cov(states.T)) @ a[0].T
    alone = common @ np.linalg.pinv(np.atleast_2d(np.cov(x.T)), hermitian=True)
    return {
        "rotation_angle": float(angles.max()),
        "w_shrinkage": float(raw.singular_values.mean()),
        "w_shrinkage_predicted": float(np.linalg.svd(alone, compute_uv=False).mean()),
    }


def bound(walks: Walks, agent: int, h_ND: np.ndarray, z_NL: np.ndarray) -> dict[str, float]:
    """Compares an agent's error with theorem 3's bound on it.

    The theorem: min_Q E||h - Q z||^2 <= d + (epsilon + d)^2, where Q is orthogonal, epsilon is the
    distance ||Cov(h) - I||_F, and d = max(L - 2 (1 - rho) tr Cov(h), 0) / (2 rho (1 - rho)) with
    L = E||h' - h||^2 over successive states. Its h has zero mean, so means are subtracted. The
    covariance stays as the encoder made it: epsilon is its price.

    L is measured on the agent's own walk, all else on the independent states: the covariance of a
    walk at rho = 0.9 is known as badly as that of a tenth as many independent states.

    Args:
        walks: of all agents.
        agent: whose walk it is.
        h_ND: the agent's latents of independent states.
        z_NL: these states.

    Returns:
        'bound', 'recovery_error' (the left side), and the two quantities that the bound is made
        of, 'bound_epsilon' and 'bound_nonlinearity' (d, which the theorem calls D). Nothing if the
        correlations of the states differ, or the latents' width from the number of states.
    """
    if h_ND.shape != z_NL.shape or np.ptp(walks.rho) > 0:
        return {}
    rho, walk = float(walks.rho[0]), np.asarray(walks.latents[agent], np.float64)
    still = metrics.approximate_bound(h_ND, h_ND, rho)  # the covariance; no time passes
    loss = float(np.square(np.diff(walk, axis=0)).sum(1).mean())
    found = dataclasses.replace(still, loss=loss, delta=loss - 2.0 * (1.0 - rho) * still.trace)
    return {
        "bound": found.bound,
        "bound_epsilon": found.epsilon,
        "bound_nonlinearity": found.nonlinearity,
        "recovery_error": metrics.orthogonal_recovery(z_NL, h_ND, center=True)[0],
    }


def dynamics(walks: Walks, agent: int, h_ND: np.ndarray, z_NL: np.ndarray) -> dict[str, float]:
    """Compares the transition A of h' = A h + B a with that of the states, z' = diag(rho) z + ...

    If h = Q z, then A = Q diag(rho) Q^T has the eigenvalues rho, whatever the rotation. Noise in
    h makes them smaller.

    Args:
        walks, agent, h_ND, z_NL: see `bound`; A is fitted to the walk, Q to the states.

    Returns:
        'rho_true' and 'rho_recovered': the mean of rho and of the eigenvalues' real parts;
        'rho_error': the largest |eigenvalue - rho|, both in order of size; 'transition_error':
        ||Q^T A Q - diag(rho)||_F / sqrt(L), Q by Procrustes from z to h. Nothing if the latents'
        width differs from the number of states.
    """
    if h_ND.shape != z_NL.shape:
        return {}
    rho, mean_D = np.asarray(walks.rho, np.float64), h_ND.mean(0, np.float64)
    a_DD = response(walks.latents[agent], walks.actions[agent], mean_D)[0]
    values = np.sort_complex(np.linalg.eigvals(a_DD))
    q_DL = metrics.orthogonal_recovery(z_NL, h_ND, center=True)[1]
    off_LL = q_DL.T @ a_DD @ q_DL - np.diag(rho)
    return {
        "rho_true": float(rho.mean()),
        "rho_recovered": float(values.real.mean()),
        "rho_error": float(np.abs(values - np.sort(rho)).max()),
        "transition_error": float(np.linalg.norm(off_LL) / np.sqrt(len(rho))),
    }
