"""Metrics of the recovery of true latents by an encoder, in float64 NumPy.

Theorem numbers and equations are those of "When Does LeJEPA Learn a World Model?". z are the true
latents, h the outputs of the encoder for the same samples, and h' its outputs for the second view
of the pair (z, z') (one transition: `noised="second"`).

Shape key: N samples, D latent dimension, E encoder outputs.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from socialjepa_jax.errors import InputError, as_array, check_inside, check_one_of

MULTIOUTPUT = ("pooled", "uniform", "raw")


def fit_affine(x_ND: np.ndarray, y_NE: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fits y ~ A x + b by least squares, with minimum norm if x is rank deficient.

    Returns:
        A f64[E, D] and b f64[E].
    """
    x_ND, y_NE = as_array(x_ND, "x", np.float64), as_array(y_NE, "y", np.float64)
    x_mean, y_mean = x_ND.mean(0), y_NE.mean(0)
    a_ED = linalg.lstsq(x_ND - x_mean, y_NE - y_mean, lapack_driver="gelsy")[0].T
    return a_ED, y_mean - a_ED @ x_mean


def r2(
    x_ND: np.ndarray,
    y_NE: np.ndarray,
    *,
    multioutput: str = "pooled",
    held_out: tuple[np.ndarray, np.ndarray] | None = None,
) -> float | np.ndarray:
    """Returns R2 of the least-squares map x -> y with intercept; NaN if a target is constant.

    Args:
        x_ND: inputs to fit on.
        y_NE: targets to fit on.
        multioutput: "pooled": one minus the ratio of summed squares over all outputs, which weights
            outputs by their variance (the paper's code); "uniform": mean of the R2 of each output
            (scikit-learn's default); "raw": R2 of each output, f64[E].
        held_out: (x, y) to score on; None: score in sample, as the published code does.
    """
    check_one_of(MULTIOUTPUT, multioutput=multioutput)
    a_ED, b_E = fit_affine(x_ND, y_NE)
    x, y = (as_array(v, "held_out", np.float64) for v in (held_out or (x_ND, y_NE)))
    residual_E = np.square(y - (x @ a_ED.T + b_E)).sum(0)
    total_E = np.square(y - y.mean(0)).sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        if multioutput == "pooled":
            return float(1.0 - residual_E.sum() / total_E.sum())
        raw_E = 1.0 - residual_E / total_E
    return raw_E if multioutput == "raw" else float(raw_E.mean())


def orthogonality_error(a_ED: np.ndarray, *, normalized: bool = True) -> float:
    """Returns ||A^T A - I||_F of the map z -> h, over sqrt(D) if `normalized` (the paper)."""
    gram = a_ED.T @ a_ED
    error = np.linalg.norm(gram - np.eye(len(gram)))
    return float(error / np.sqrt(len(gram)) if normalized else error)


@dataclass(frozen=True)
class Bound:
    """Quantities of the approximate-identifiability theorem (theorem 3).

    Attributes:
        loss: L(h) = mean ||h' - h||^2.
        trace: trace of Cov(h), unbiased.
        epsilon: ||Cov(h) - I||_F.
        delta: L(h) - 2 (1 - rho) trace, the alignment gap.
        rho: correlation of the pair.
    """

    loss: float
    trace: float
    epsilon: float
    delta: float
    rho: float

    @property
    def nonlinearity(self) -> float:
        """D = max(delta, 0) / (2 rho (1 - rho)), a bound on the variance beyond degree one."""
        return max(self.delta, 0.0) / (2.0 * self.rho * (1.0 - self.rho))

    @property
    def bound(self) -> float:
        """D + (epsilon + D)^2, a bound on min_Q E||h - Qz||^2."""
        return self.nonlinearity + (self.epsilon + self.nonlinearity) ** 2


def approximate_bound(h_NE: np.ndarray, h_prime_NE: np.ndarray, rho: float) -> Bound:
    """Estimates the theorem's quantities from pairs of one transition."""
    check_inside(0.0, 1.0, rho=rho)
    h, h_prime = as_array(h_NE, "h", np.float64), as_array(h_prime_NE, "h_prime", np.float64)
    covariance = np.atleast_2d(np.cov(h.T))
    loss = float(np.square(h_prime - h).sum(1).mean())
    trace = float(np.trace(covariance))
    epsilon = float(np.linalg.norm(covariance - np.eye(len(covariance))))
    return Bound(loss, trace, epsilon, loss - 2.0 * (1.0 - rho) * trace, rho)


def orthogonal_recovery(
    z_ND: np.ndarray, h_ND: np.ndarray, *, center: bool = False
) -> tuple[float, np.ndarray]:
    """Returns min over orthogonal Q of mean ||h - Q z||^2, and Q f64[D, D], by SVD of E[h z^T].

    Args:
        z_ND: latents.
        h_ND: encoder outputs, as many as latents.
        center: subtract the means first; the published code does not.
    """
    z, h = as_array(z_ND, "z", np.float64), as_array(h_ND, "h", np.float64)
    if z.shape != h.shape:
        raise InputError(f"h has shape {h.shape} and z {z.shape}; they must be equal")
    if center:
        z, h = z - z.mean(0), h - h.mean(0)
    u, _, vt = np.linalg.svd(h.T @ z / len(z))
    q_DD = u @ vt
    return float(np.square(h - z @ q_DD.T).sum(1).mean()), q_DD


def bound_slack(
    z_ND: np.ndarray, h_ND: np.ndarray, h_prime_ND: np.ndarray, rho: float, num_blocks: int = 20
) -> tuple[float, float]:
    """Returns theorem 3's bound minus the recovery error, and its block-jackknife standard error.

    A negative slack of a few standard errors or less is sampling noise.
    """

    def slack(keep: np.ndarray) -> float:
        h = h_ND[keep] - h_ND[keep].mean(0)  # the theorem's h has zero mean
        h_prime = h_prime_ND[keep] - h_prime_ND[keep].mean(0)
        error, _ = orthogonal_recovery(z_ND[keep], h, center=True)
        return approximate_bound(h, h_prime, rho).bound - error

    block = np.arange(len(z_ND)) * num_blocks // len(z_ND)
    left_out = np.array([slack(block != b) for b in range(num_blocks)])
    variance = np.square(left_out - left_out.mean()).sum() * (num_blocks - 1) / num_blocks
    return slack(block >= 0), float(np.sqrt(variance))


def recovered_dynamics(
    h_NE: np.ndarray, h_prime_NE: np.ndarray, rho: float
) -> dict[str, float | np.ndarray]:
    """Compares the dynamics of h with the optimum h' | h ~ N(rho h, (1 - rho^2) I) of theorem 1.

    Returns:
        "transition" A f64[E, E] and "noise" f64[E, E], the residual covariance, of the regression
        of h' on h; "transition_error" ||A - rho I||_F / sqrt(E) and "noise_error"
        ||noise - (1 - rho^2) I||_F / sqrt(E).
    """
    a_EE, b_E = fit_affine(h_NE, h_prime_NE)
    noise_EE = np.atleast_2d(np.cov((h_prime_NE - h_NE @ a_EE.T - b_E).T))
    eye = np.eye(len(a_EE))
    return {
        "transition": a_EE,
        "noise": noise_EE,
        "transition_error": float(np.linalg.norm(a_EE - rho * eye) / np.sqrt(len(eye))),
        "noise_error": float(np.linalg.norm(noise_EE - (1.0 - rho**2) * eye) / np.sqrt(len(eye))),
    }


def evaluate(
    z_ND: np.ndarray, x_NX: np.ndarray, h_NE: np.ndarray, h_prime_NE: np.ndarray, rho: float
) -> dict[str, float]:
    """Returns the published code's metrics under its names, with R2 pooled and in sample.

    `D_bound`, `delta` and `approx_bound` are those of `Bound` with a negative gap clamped to zero.
    `procrustes_mse` is `orthogonal_recovery`, NaN if h and z differ in their number of features.
    """
    a_ED, _ = fit_affine(z_ND, h_NE)
    bound = approximate_bound(h_NE, h_prime_NE, rho)
    square = h_NE.shape == z_ND.shape
    return {
        "r2_zx": float(r2(z_ND, x_NX)),
        "r2_xz": float(r2(x_NX, z_ND)),
        "r2_zh": float(r2(z_ND, h_NE)),
        "r2_hz": float(r2(h_NE, z_ND)),
        "orth_err": orthogonality_error(a_ED, normalized=False),
        "orth_err_normalized": orthogonality_error(a_ED),
        "epsilon": bound.epsilon,
        "delta": max(bound.delta, 0.0),
        "D_bound": bound.nonlinearity,
        "approx_bound": bound.bound,
        "procrustes_mse": orthogonal_recovery(z_ND, h_NE)[0] if square else float("nan"),
        "L_h": bound.loss,
        "trace_cov": bound.trace,
    }
