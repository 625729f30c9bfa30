"""Measures of two agents on held-out objects, and intervals over objects and over both agents.

A pair of agents is a draw of one agent for each camera. Three agents a camera make nine pairs,
which are not nine draws: the variances over the first agents, over the second and over objects add,
each with its own degrees of freedom.

Shape key: I agents of the first camera, J of the second, G objects, N states, D features, K ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.alignability import jackknife
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.config import Alignment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.report.tables import Interval

RANKS = 48  # of matched ranks: the width of the encoders
JACKKNIFED = ("r2", "dsc", "dsc_no_map", "nos@10", "nos@10_no_map", "cka_debiased", "rankme")
SCORES = ("mse", "kappa", "kappa_effective")  # of `alignment.evaluate`

Measured = dict[str, tuple[float, np.ndarray | None]]  # value, and without each object [G]


def of_pair(
    how: Alignment, dataset: ViewDataset, split: Split, x: np.ndarray, y: np.ndarray
) -> Measured:
    """Measures two spaces [N, D] of the same states."""
    linear_map = evaluation.fit_map(how, x, y, split.train)
    found = jackknife.estimates(linear_map, x, y, split, dataset.instance_ids, JACKKNIFED)
    measured: Measured = {name: (each.value, each.without) for name, each in found.items()}
    measured["r2_beyond"] = beyond(how, dataset, split, x, y)
    measured["area"] = area(split, dataset.instance_ids, x, y)
    parts = [z[rows] for rows in (split.train, split.test) for z in (x, y)]
    directions = alignment.matched_rank(*parts, ranks=RANKS).dimensions
    scores = alignment.evaluate(linear_map, x[split.test], y[split.test], back="inverse")
    subject = evaluation.Subject("pair", split, (0, 1), x, y)
    probes = evaluation.probe_accuracies(how, dataset, subject, linear_map)
    scored = {name: scores[name] for name in SCORES}
    return measured | exact({"dimensions": directions} | scored | probes)


def exact(values: Mapping[str, float]) -> Measured:
    """Returns measures that are not taken without each object."""
    return {name: (float(value), None) for name, value in values.items()}


def kappa(linear_map: alignment.LinearMap) -> float:
    """Returns the condition number of W between spaces behind a LayerNorm.

    It takes one direction away from the narrower space, whose singular value is rounding alone, so
    the last one is left out.
    """
    values = linear_map.singular_values
    return float(values[0] / values[-2])


def beyond(
    how: Alignment, dataset: ViewDataset, split: Split, x: np.ndarray, y: np.ndarray
) -> tuple[float, np.ndarray]:
    """R2 of W after the factors that both cameras share are regressed out of both spaces."""
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))
    x, y = (controls.partial_out(z, features, split.train, ridge=1e-6) for z in (x, y))
    linear_map = evaluation.fit_map(how, x, y, split.train)
    found = jackknife.estimates(linear_map, x, y, split, dataset.instance_ids, ("r2",))["r2"]
    return found.value, found.without


def area(
    split: Split, objects_N: np.ndarray, x: np.ndarray, y: np.ndarray, ranks: int = RANKS
) -> tuple[float, np.ndarray]:
    """Returns the area under R2 at equal ranks, and the same without each object: [G].

    Args:
        split: the states that components are fitted to, and those that are tested.
        objects_N: the object of each state.
        x, y: [N, D] and [N, E].
        ranks: K, see `alignment.matched_rank`.
    """
    train, held = ([z[rows] for z in (x, y)] for rows in (split.train, split.test))
    objects = objects_N[split.test]
    kept = [objects != each for each in np.unique(objects)]
    tests = [(held[0], held[1]), *((held[0][rows], held[1][rows]) for rows in kept)]
    found = areas(train[0], train[1], tests, ranks)
    return float(found[0]), found[1:]


def areas(
    x_train: np.ndarray,
    y_train: np.ndarray,
    tests: Sequence[tuple[np.ndarray, np.ndarray]],
    ranks: int = RANKS,
) -> np.ndarray:
    """Returns the area under R2 at equal ranks on each of several sets of test rows.

    Args:
        x_train, y_train: latents [N, D] of the training rows.
        tests: latents of test rows, of both agents.
        ranks: K.
    """
    to_x, to_y = (alignment.principal_components(z, ranks) for z in (x_train, y_train))
    x, y = to_x(x_train), to_y(y_train)
    curves = [alignment.rank_curve(x, y, to_x(a), to_y(b), ranks) for a, b in tests]
    return np.mean(curves, axis=1)


def wrong_partners(split: Split, count: int) -> np.ndarray:
    """Draws a state for every state, within the training states and within the test states.

    Args:
        split: the states.
        count: N, of all states.

    Returns:
        i64[N], a permutation, the same in every call; a state may keep its place.
    """
    rng, partners = np.random.default_rng(0), np.arange(count)
    for rows in (split.train, split.test):
        partners[rows] = rng.permutation(rows)
    return partners


def single(found: Mapping[str, tuple[float, np.ndarray | None]]) -> dict[str, Any]:
    """Returns measures of one pair as the cells of a grid."""
    return {name: {"pairs": [[value]], "without": None} for name, (value, _) in found.items()}


def grid(
    pairs: Sequence[tuple[int, int]], measure: Callable[[int, int], Measured], columns: int
) -> dict[str, Any]:
    """Measures the pairs of a grid of agents, row by row.

    Args:
        pairs: (i, j), row by row.
        measure: of a pair.
        columns: J.

    Returns:
        Measure -> {"pairs": [I, J], "without": [G] or None}, the values without each object
        averaged over pairs.
    """
    each = [measure(i, j) for i, j in pairs]
    plain = {}
    for name in each[0]:
        values = np.reshape([one[name][0] for one in each], (-1, columns))
        left_out = [one[name][1] for one in each]
        without = None if left_out[0] is None else np.mean(np.stack(left_out), axis=0).tolist()
        plain[name] = {"pairs": values.tolist(), "without": without}
    return plain


def interval(cell: Mapping[str, Any], less: Mapping[str, Any] | None = None) -> Interval:
    """Returns the mean over pairs and its 95 % interval over objects and over both agents.

    Args:
        cell: a measure of `grid`.
        less: another one, which is subtracted, pair by pair and object by object; one pair stands
            for all.
    """
    pairs_IJ = np.array(cell["pairs"])
    without = cell["without"]
    if less is not None:
        pairs_IJ = pairs_IJ - np.array(less["pairs"])
        without = without and np.subtract(without, less["without"])
    parts = [] if without is None else [jackknife.of_objects(np.asarray(without))]
    parts += [jackknife.of_repeats(pairs_IJ.mean(axis=axis)) for axis in (0, 1) if _many(pairs_IJ)]
    mean = float(pairs_IJ.mean())
    half = jackknife.half_width(parts) if parts else float("nan")
    return Interval(mean, mean - half, mean + half)


def _many(pairs_IJ: np.ndarray) -> bool:
    return min(pairs_IJ.shape) > 1
