"""Loss of search by a map when its input is stored in fewer bits.

Shape suffixes: N rows, D features.
"""

from __future__ import annotations

import numpy as np

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import prediction_r2
from socialjepa_jax.alignment.migration.search import Index, answer_ranks, query_scores
from socialjepa_jax.alignment.moments import Float64

_LEVELS = 255  # steps of an int8 feature


def stored_copies(
    linear_map: LinearMap, train_x: np.ndarray, x: np.ndarray, y: np.ndarray, similarity: str
) -> dict[str, dict[str, float]]:
    """Measures the map on held-out pairs with x as given and as copies in float16 and int8.

    Args:
        linear_map: fitted on other pairs.
        train_x: raw latents [N, D], whose ranges the int8 copy divides into 255 steps, feature by
            feature.
        x, y: held-out pairs, raw.
        similarity: by which items of x, mapped, look for themselves among those of y.

    Returns:
        Copy -> `recall@1`, and `r2_raw` in raw units of y.
    """
    answers = np.arange(len(x))[:, None]
    found = {}
    for name, copy in _copies(np.asarray(train_x, np.float64), np.asarray(x, np.float64)).items():
        mapped = linear_map.forward(copy)
        ranks = answer_ranks(mapped, Index.of(y), answers, similarity)
        found[name] = {
            "recall@1": float(query_scores(ranks)["recall@1"].mean()),
            "r2_raw": prediction_r2(mapped, y, np.ones(len(linear_map.y_mean))),
        }
    return found


def _copies(train: Float64, x: Float64) -> dict[str, Float64]:
    largest = float(np.finfo(np.float16).max)
    low, high = train.min(axis=0), train.max(axis=0)
    step = np.where(high > low, (high - low) / _LEVELS, 1.0)
    levels = np.clip(np.rint((x - low) / step), 0, _LEVELS)
    return {
        "as given": x,
        "float16": np.clip(x, -largest, largest).astype(np.float16).astype(np.float64),
        "int8": low + levels * step,
    }
