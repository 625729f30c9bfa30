"""Linear probes by multinomial logistic regression, as most papers fit them.

Shape suffixes: N samples, D features, C classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from socialjepa_jax.alignment.moments import Float64, as_latents, nonzero_scales
from socialjepa_jax.collaboration.probe import Probe, check_count, checked_labels
from socialjepa_jax.errors import check_positive


def fit_logistic(
    z: ArrayLike,
    labels: ArrayLike,
    num_classes: int,
    *,
    strength: float = 1.0,
    max_iterations: int = 300,
) -> Probe:
    """Fits a probe by softmax regression on standardised latents, in float64 (L-BFGS).

    Minimises the summed cross-entropy + strength / 2 * |weights|^2; the bias is not penalised.

    Args:
        z: raw latents [N, D].
        labels: integers [N] in [0, num_classes).
        num_classes: C.
        strength: penalty on weights of standardised latents.
        max_iterations: limit of L-BFGS.

    Returns:
        The probe, with the standardisation folded in.
    """
    check_positive(strength=strength, max_iterations=max_iterations)
    z_ND, labels_N = as_latents(z, "z"), checked_labels(labels, num_classes)
    check_count(z_ND, labels_N)
    mean_D = z_ND.mean(axis=0)
    scale_D = nonzero_scales(z_ND.std(axis=0), mean_D)
    z_ND = (z_ND - mean_D) / scale_D
    target_NC = np.eye(num_classes)[labels_N]

    def loss(flat: Float64) -> tuple[float, Float64]:
        weight_DC, bias_C = _unflatten(flat, num_classes)
        logits_NC = z_ND @ weight_DC + bias_C
        log_p_NC = special.log_softmax(logits_NC, axis=1)
        error_NC = np.exp(log_p_NC) - target_NC
        gradient = np.concatenate(
            [(z_ND.T @ error_NC + strength * weight_DC).ravel(), error_NC.sum(axis=0)]
        )
        penalty = strength / 2 * float(np.sum(weight_DC**2))
        return penalty - float(np.sum(log_p_NC * target_NC)), gradient

    start = np.zeros((z_ND.shape[1] + 1) * num_classes)
    options = {"maxiter": max_iterations}
    from scipy import optimize  # late: the import takes 0.3 s, and most runs fit no such probe

    result = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    weight_DC, bias_C = _unflatten(result.x, num_classes)
    weight_DC = weight_DC / scale_D[:, None]
    return Probe(weight_DC, bias_C - mean_D @ weight_DC)


def _unflatten(flat: Float64, num_classes: int) -> tuple[Float64, Float64]:
    return flat[:-num_classes].reshape(-1, num_classes), flat[-num_classes:]
