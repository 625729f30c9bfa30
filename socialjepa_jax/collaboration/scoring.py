"""Accuracy of probes of one space on another: untransferred, transferred, and oracle.

Shape suffixes: N samples, D and E features, K spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.settings import TRAIN_ROWS, sample_rows
from socialjepa_jax.alignment.study.spaces import Comparison
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.collaboration.probe import Probe, accuracy, fit_probe, transfer_probe
from socialjepa_jax.errors import InputError

CLASSIFIERS = ("logistic", "ridge")
TRANSFERS = ("regression", "inverse", "procrustes")  # kinds of `transfer_probe`

Scores = dict[str, float]  # classifier -> accuracy


def probe_scores(study: Study, spaces: Spaces) -> dict[str, Scores]:
    """Scores probes on the rows that a study has fitted and measured; empty without labels."""
    if spaces.labels is None:
        return {}
    x, y = spaces.latents
    rows = study.split.train_sample
    parts = [
        (np.asarray(x[part], np.float64), np.asarray(y[part], np.float64), spaces.labels[part])
        for part in (rows, study.split.test)
    ]
    groups = None if spaces.groups is None else spaces.groups[rows]
    return score_probes(study.linear_map, *parts, groups=groups)


def space_probes(comparison: Comparison, spaces: Spaces) -> Float64 | None:
    """Returns the `probe_matrix` of compared spaces, or None without labels."""
    if spaces.labels is None:
        return None
    split = comparison.split
    train = sample_rows(split.train, TRAIN_ROWS, 0)
    maps = {index: pair.linear_map for index, pair in comparison.pairs.items()}
    return probe_matrix(spaces.latents, maps, spaces.labels, train, split.test)


def score_probes(
    linear_map: LinearMap,
    train: tuple[Float64, Float64, np.ndarray],
    test: tuple[Float64, Float64, np.ndarray],
    *,
    groups: np.ndarray | None = None,
) -> dict[str, Scores]:
    """Computes held-out accuracies of probes of x on x and on y, by probe and classifier.

    Args:
        linear_map: y ~ W x.
        train, test: raw latents x [N, D], y [N, E], and labels [N] of any type.
        groups: labels of training rows that stay together in the folds that choose the ridge.

    Returns:
        `own` (x on x), `raw` (on y without transfer, if D = E), `regression`, `inverse` and
        `procrustes` (transferred through the map), `oracle` (fitted on y) and `frequent` (always
        the most frequent held-out class), each with "logistic" and "ridge".

    Raises:
        InputError: if the training rows hold fewer than 2 classes.
    """
    names, classes = np.unique(np.concatenate([train[2], test[2]]), return_inverse=True)
    fit_N, held_N = np.split(classes, [len(train[2])])
    if len(np.unique(fit_N)) < 2:
        raise InputError(
            f"labels: a probe needs at least 2 classes, the training rows hold "
            f"{len(np.unique(fit_N))}"
        )
    scores: dict[str, Scores] = {}
    for classifier in CLASSIFIERS:
        own, oracle = (_fit(classifier, z, fit_N, len(names), groups) for z in train[:2])
        probes = {kind: transfer_probe(own, linear_map, kind=kind) for kind in TRANSFERS}
        if own.weight.shape == oracle.weight.shape:
            probes = {"raw": own, **probes}
        accuracies = {
            "own": accuracy(own, test[0], held_N),
            **{name: accuracy(probe, test[1], held_N) for name, probe in probes.items()},
            "oracle": accuracy(oracle, test[1], held_N),
            "frequent": float(np.bincount(held_N).max() / len(held_N)),
        }
        for name, value in accuracies.items():
            scores.setdefault(name, {})[classifier] = value
    return scores


def probe_matrix(
    spaces: Sequence[np.ndarray],
    maps: Mapping[tuple[int, int], LinearMap],
    labels: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> Float64:
    """Computes held-out accuracies [K, K] of logistic probes of the row's space on the column's.

    Probes are transferred by the reverse regression; the diagonal holds each space's own probe.

    Args:
        spaces: K raw latents [N, D_k].
        maps: (i, j) -> map from space i to space j, for i != j.
        labels: [N] of any type.
        train, test: row numbers.
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
    classifier: str, z: Float64, classes: np.ndarray, count: int, groups: np.ndarray | None
) -> Probe:
    if classifier == "logistic":
        return fit_logistic(z, classes, count)
    return fit_probe(z, classes, count, ridge="auto", groups=groups)
