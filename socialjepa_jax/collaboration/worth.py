"""How many labels of its own a space would need to be read as well as by a carried probe.

Shape key: N samples, K numbers of labels.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from socialjepa_jax.collaboration import costs
from socialjepa_jax.errors import InputError, as_array, check_positive


def few_labels(
    score: Callable[[np.ndarray], float],
    rows: np.ndarray,
    counts: Sequence[int],
    *,
    classes: np.ndarray | None = None,
    draws: int = 20,
    seed: int = 0,
) -> np.ndarray:
    """Returns the mean score of probes that were fitted to a few labelled rows: f64[K].

    Args:
        score: fits a probe to the given rows and scores it on others.
        rows: i64[N], that may be labelled.
        counts: labels of a draw, of each class if there are classes.
        classes: i64[N], of the rows; None: labels are continuous.
        draws: of labelled rows that are averaged; one where all rows are drawn.
        seed: of the draws.

    Raises:
        InputError: a class, or all of the rows, hold fewer than a count.
    """
    check_positive(draws=draws, counts=min(counts, default=0))
    rows, rng = as_array(rows, "rows"), np.random.default_rng(seed)
    groups = [rows] if classes is None else [rows[classes == c] for c in np.unique(classes)]
    least = min(map(len, groups))
    if max(counts) > least:
        raise InputError(f"counts={tuple(counts)}: there are only {least} labelled rows of a class")
    return np.array([
        np.mean([
            score(np.concatenate([rng.choice(group, count, replace=False) for group in groups]))
            for _ in range(1 if len(groups) * count == len(rows) else draws)
        ])
        for count in counts
    ])  # fmt: skip


def label_equivalents(counts: Sequence[int], scores_K: np.ndarray, carried: float) -> float:
    """Returns the number of labels whose own probe is as good as a carried one.

    Scores are interpolated over the logarithm of the number of labels, after their best increasing
    fit. inf: no number of labels that was tried is enough; the least one: it is enough already.

    Args:
        counts: numbers of labels, increasing.
        scores_K: of own probes.
        carried: score of the carried probe.
    """
    return math.exp(costs.crossing(np.log(np.asarray(counts, np.float64)), scores_K, carried))
