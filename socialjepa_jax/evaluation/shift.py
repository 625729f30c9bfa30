"""Distribution shift (Social-JEPA, Table 5): W is fitted on one condition and tested on others.

A data set names the condition (`ViewDataset.domain`, a category such as "day"). States that the
headline split trains on and that are in the domain fit W; held-out states test it, those of the
domain and those of every other category apart.
"""

import numpy as np
from absl import logging

from socialjepa_jax import alignment
from socialjepa_jax.config import Alignment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation.metrics import fit_map
from socialjepa_jax.evaluation.splits import FEWEST_STATES, Split
from socialjepa_jax.records import RowName

ROWS = (RowName.TRAINED, RowName.UNTRAINED, RowName.PIXEL_PCA, RowName.MISMATCHED)
"""Rows that are measured under a shift."""


def shifts(dataset: ViewDataset, split: Split) -> list[Split]:
    """Returns the splits "DOMAIN to CATEGORY" of a data set with a domain, its own first.

    A category with too few held-out states is left out with a warning.

    Args:
        dataset: with `domain`.
        split: whose training and test states are divided.
    """
    domain = dataset.label_names.index(dataset.domain)
    fitted = split.train[dataset.labels[split.train] == domain]
    found = []
    for label in sorted(set(dataset.labels.tolist()), key=lambda label: label != domain):
        tested = split.test[dataset.labels[split.test] == label]
        name = f"{dataset.domain} to {dataset.label_names[label]}"
        if min(len(fitted), len(tested)) < FEWEST_STATES:
            logging.warning(
                "%s: %d states to fit and %d to test are too few", name, len(fitted), len(tested)
            )
            continue
        found.append(Split(name, fitted, tested))
    return found


def table5_shift(
    how: Alignment, dataset: ViewDataset, split: Split, x: np.ndarray, y: np.ndarray
) -> dict[str, dict[str, float]]:
    """Fits W in the domain and measures it in and out of it.

    Args:
        how: W is fitted.
        dataset: with `domain`.
        split: the headline split.
        x, y: f32[N, D], f32[N, E].

    Returns:
        "DOMAIN to CATEGORY" -> the metrics of `alignment.evaluate`.
    """
    found = {}
    for part in shifts(dataset, split):
        linear_map = fit_map(how, x, y, part.train)
        near = tuple(k for k in how.neighbors if k < len(part.test))
        found[part.name] = alignment.evaluate(
            linear_map, x[part.test], y[part.test], neighbors=near
        )
    return found
