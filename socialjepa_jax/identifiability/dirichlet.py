"""The Dirichlet energy of a map of Gaussian latents, least for rotations.

"When Does LeJEPA Learn a World Model?", appendix "Alternative Proof via Dirichlet Energy": a C1
diffeomorphism h that keeps N(0, I_n) has E||J||_F^2 >= n, with equality for h(z) = Q z alone, where
J is the Jacobian of h.

Shape key: N samples, D latents, E features of h.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.errors import InputError


@dataclass(frozen=True)
class Energy:
    """Energy of a map beside what the proof says of it, for codes whitened by their covariance.

    In Hermite polynomials of z the energy of a white code is the sum over degrees k >= 1 of k times
    the variance of that degree, so `energy / n - 1 >= 1 - linear` (the Gaussian Poincare
    inequality), whether or not h keeps the Gaussian or is invertible.

    Attributes:
        energy: E||J||_F^2, at least n; its limit as 1 - R2 falls to zero.
        linear: share of the variance that is linear in z, R2(z -> h).
        log_det: E ln|det J|: zero if h keeps the Gaussian, and minus the negentropy of the code if
            h is invertible.
    """

    energy: float
    linear: float
    log_det: float


def dirichlet(z_ND: np.ndarray, h_ND: np.ndarray, jacobian_NDD: np.ndarray) -> Energy:
    """Measures a map with as many features as latents on a sample of N(0, I).

    The sample's own mean and covariance are taken as those of the latents, so that a linear map has
    exactly the energy n and the linear share 1.

    Args:
        z_ND: f64[N, D], latents.
        h_ND: f64[N, D], their codes.
        jacobian_NDD: f64[N, D, D], derivative of feature e by latent d at [n, e, d].

    Raises:
        InputError: shapes do not agree, or the codes have no full rank.
    """
    z_ND, h_ND, jacobian_NDD = (np.asarray(a, np.float64) for a in (z_ND, h_ND, jacobian_NDD))
    num, dim = z_ND.shape
    if h_ND.shape != (num, dim) or jacobian_NDD.shape != (num, dim, dim):
        raise InputError(
            f"h_ND has the shape {h_ND.shape} and jacobian_NDD {jacobian_NDD.shape} for latents "
            f"of {z_ND.shape}"
        )
    z_ND, h_ND = z_ND - z_ND.mean(0), h_ND - h_ND.mean(0)
    root_DD = np.linalg.cholesky(z_ND.T @ z_ND / num)  # z = root e, with e white
    covariance_DD = h_ND.T @ h_ND / num
    if np.linalg.matrix_rank(covariance_DD, hermitian=True) < dim:
        raise InputError("h_ND: the codes have no full rank")
    code_DD = np.linalg.cholesky(covariance_DD)
    white_NDD = np.linalg.solve(code_DD, jacobian_NDD @ root_DD)
    cross_DD = np.linalg.solve(code_DD, h_ND.T @ np.linalg.solve(root_DD, z_ND.T).T / num)
    return Energy(
        energy=float(np.square(white_NDD).sum((1, 2)).mean()),
        linear=float(np.square(cross_DD).sum() / dim),
        log_det=float(np.linalg.slogdet(white_NDD)[1].mean()),
    )


def jacobians(encode: Callable[[jax.Array], jax.Array], z_ND: np.ndarray) -> np.ndarray:
    """Returns the Jacobian of a traceable map f32[N, D] -> f32[N, E] at each point: f64[N, E, D].

    The map must treat each row by itself.
    """
    one = jax.jacfwd(lambda z_D: encode(z_D[None])[0])
    with jax.default_matmul_precision("highest"):
        found = jax.jit(lambda z: jax.lax.map(one, z, batch_size=1024))(jnp.asarray(z_ND))
    return np.asarray(found, np.float64)


def difference_quotient(
    encode: Callable[[jax.Array], jax.Array], z_ND: np.ndarray, noise_ND: np.ndarray, epsilon: float
) -> float:
    """Returns E||h(z + sqrt(epsilon) eta) - h(z)||^2 / epsilon, which tends to E||J||_F^2.

    Both ends are encoded in float32, so epsilon below about 1e-6 measures rounding.

    Args:
        encode: a traceable map, see `jacobians`.
        z_ND: latents.
        noise_ND: eta, standard normal.
        epsilon: variance of the noise, > 0.
    """
    with jax.default_matmul_precision("highest"):
        moved = encode(jnp.asarray(z_ND + np.sqrt(epsilon) * noise_ND, jnp.float32))
        still = encode(jnp.asarray(z_ND, jnp.float32))
    change = np.asarray(moved, np.float64) - np.asarray(still, np.float64)
    return float(np.square(change).sum(1).mean() / epsilon)
