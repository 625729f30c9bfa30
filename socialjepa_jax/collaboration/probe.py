"""Linear probes on raw latents, and their transfer through a map (section 3.7).

Shape suffixes: N samples, D features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax import alignment
from socialjepa_jax.alignment.moments import Float64, as_latents
from socialjepa_jax.errors import InputError, as_array


@dataclass(frozen=True, eq=False)
class Probe:
    """A linear head on raw latents: logits = z @ weight + bias.

    Attributes:
        weight: [D, C], float64.
        bias: [C], float64.
    """

    weight: Float64
    bias: Float64

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[1:]:
            raise InputError(f"a probe's weight {self.weight.shape} and bias {self.bias.shape}")

    def logits(self, z: ArrayLike) -> Float64:
        """Returns logits [N, C] of raw latents z [N, D]."""
        return as_latents(z, "z") @ self.weight + self.bias

    def predict(self, z: ArrayLike) -> np.ndarray:
        """Returns the most likely class int64 [N] of raw latents z [N, D]."""
        return np.argmax(self.logits(z), axis=1)


def fit_probe(
    z: ArrayLike,
    labels: ArrayLike,
    num_classes: int,
    *,
    ridge: float | str = 1.0,
    groups: ArrayLike | None = None,
) -> Probe:
    """Fits a probe by ridge regression of one-hot labels on standardised latents.

    Args:
        z: raw latents [N, D].
        labels: integers [N] in [0, num_classes).
        num_classes: C.
        ridge: absolute strength, or "auto" (10 folds over groups).
        groups: [N] labels of rows that stay together in a fold.

    Returns:
        The probe, with the standardisation folded in.
    """
    labels_N = checked_labels(labels, num_classes)
    one_hot_NC = np.eye(num_classes)[labels_N]
    fitted = alignment.fit(z, one_hot_NC, ridge=ridge, groups=groups)
    return Probe(*fitted.affine())


def accuracy(probe: Probe, z: ArrayLike, labels: ArrayLike) -> float:
    """Share of the samples z [N, D] whose most likely class is their label [N]."""
    labels_N = checked_labels(labels, probe.bias.size)
    predicted_N = probe.predict(z)
    check_count(predicted_N, labels_N)
    return float(np.mean(predicted_N == labels_N))


def transfer_probe(
    probe: Probe, linear_map: alignment.LinearMap, *, kind: str = "inverse"
) -> Probe:
    """Transfers a probe on x to y without labels of y: a2 = W_inv^T a (section 3.7).

    The logits of the new probe on raw z2 are those of the old probe on
    `linear_map.backward(z2, kind)`; standardisation and bias are folded in.

    Args:
        probe: fitted on raw latents of x.
        linear_map: y ~ W x.
        kind: "inverse" (W^-1, or the pseudoinverse if W is ill-conditioned), "regression" (the
            reverse regression) or "procrustes" (the orthogonal factor of W).

    Returns:
        A probe on raw latents of y.
    """
    matrix_ED, offset_D = linear_map.affine_back(kind)
    if probe.weight.shape[0] != offset_D.size:
        raise InputError(f"probe reads {probe.weight.shape[0]} features, the map {offset_D.size}")
    return Probe(matrix_ED @ probe.weight, offset_D @ probe.weight + probe.bias)


def checked_labels(labels: ArrayLike, num_classes: int) -> np.ndarray:
    """Returns the labels as an array [N] of integers in [0, num_classes).

    Raises:
        InputError: if they are anything else.
    """
    labels_N = as_array(labels, "labels")
    if labels_N.ndim != 1 or labels_N.dtype.kind not in "iu":
        raise InputError(f"labels must be integers [N], got {labels_N.dtype} {labels_N.shape}")
    if labels_N.size and not (0 <= labels_N.min() and labels_N.max() < num_classes):
        raise InputError(f"labels must be in [0, {num_classes}), got {labels_N.max()}")
    return labels_N


def check_count(z: np.ndarray, labels_N: np.ndarray) -> None:
    """Raises `InputError` unless there is one label per row of z."""
    if len(z) != len(labels_N):
        raise InputError(f"z has {len(z)} rows but there are {len(labels_N)} labels")
