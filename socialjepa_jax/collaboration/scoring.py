"""What a probe trained on one space is worth on another: before, after, and at best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.collaboration.probe import Probe, accuracy, fit_probe, transfer_probe
from socialjepa_jax.errors import InputError

KINDS = ("logistic", "ridge")  # of probes
CARRIED = ("regression", "inverse", "procrustes")

Scores = dict[str, float]


def score_probes(
    linear_map: LinearMap,
    train: tuple[Float64, Float64, np.ndarray],
    test: tuple[Float64, Float64, np.ndarray],
    *,
    groups: np.ndarray | None = None,
) -> dict[str, Scores]:
    """Accuracy on held-out rows of probes of x on x and on y, by name and kind of probe.

    Args:
      linear_map: y ~ W x.
      train, test: raw latents x [N, D], y [N, E] and labels [N] of any kind.
      groups: of the training rows, for the folds that choose the ridge.

    Returns:
      `own` (x on x), `raw` (on y as it is, only where the widths agree), `regression`, `inverse`
      and `procrustes` (carried through the map), `oracle` (y's own probe) and `frequent` (always
      the most frequent held-out class), each with "logistic" and "ridge".
    """
    names, classes = np.unique(np.concatenate([train[2], test[2]]), return_inverse=True)
    fit_N, held_N = np.split(classes, [len(train[2])])
    if len(np.unique(fit_N)) < 2:
        raise InputError(
            f"labels: a probe needs at least 2 classes, the training rows hold "
            f"{len(np.unique(fit_N))}"
        )
    scores: dict[str, Scores] = {}
    for kind in KINDS:
        own, oracle = (_fit(kind, z, fit_N, len(names), groups) for z in train[:2])
        probes = {name: transfer_probe(own, linear_map, kind=name) for name in CARRIED}
        if own.weight.shape == oracle.weight.shape:
            probes = {"raw": own, **probes}
        found = {"own": accuracy(own, test[0], held_N)}
        found |= {name: accuracy(probe, test[1], held_N) for name, probe in probes.items()}
        found["oracle"] = accuracy(oracle, test[1], held_N)
        found["frequent"] = float(np.bincount(held_N).max() / len(held_N))
        for name, value in found.items():
            scores.setdefault(name, {})[kind] = value
    return scores


def probe_matrix(
    spaces: Sequence[np.ndarray],
    maps: Mapping[tuple[int, int], LinearMap],
    labels: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> Float64:
    """Accuracy [K, K] of logistic probes of the row's space on held-out rows of the column's.

    Probes are carried by the reverse regression; on the diagonal are the spaces' own.

    Args:
      spaces: K raw latents [N, D_k].
      maps: (i, j) -> the map from space i to space j, for i != j.
      labels: [N] of any kind.
      train, test: rows.
    """
    names, classes = np.unique(labels, return_inverse=True)
    probes = [fit_logistic(z[train], classes[train], len(names)) for z in spaces]
    scores = np.empty((len(spaces), len(spaces)))
    for (i, j), _ in np.ndenumerate(scores):
        probe = probes[i]
        if i != j:
            probe = transfer_probe(probe, maps[i, j], kind="regression")
        scores[i, j] = accuracy(probe, spaces[j][test], classes[test])
    return scores


def _fit(
    kind: str, z: Float64, classes: np.ndarray, count: int, groups: np.ndarray | None
) -> Probe:
    if kind == "logistic":
        return fit_logistic(z, classes, count)
    return fit_probe(z, classes, count, ridge="auto", groups=groups)
