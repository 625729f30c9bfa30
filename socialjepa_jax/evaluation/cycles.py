"""Maps between three agents on three cameras: around the cycle, and by way of the second.

Maps between agents that hold the same state must compose: W31 W23 W12 = I, and W23 W12 = W13
(Wij maps agent i to j).

Shape key: D latent dimensions.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.evaluation.evidence import Encoded
from socialjepa_jax.evaluation.table import Row
from socialjepa_jax.records import CYCLES


def triples(cameras: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yields all triples i < j < k of agents on three different cameras."""
    for i, j, k in itertools.combinations(range(len(cameras)), 3):
        if len({cameras[i], cameras[j], cameras[k]}) == 3:
            yield i, j, k


def cycle_rows(encoded: Encoded, check: Callable[[], None] = lambda: None) -> list[Row]:
    """Returns the rows of every triple: x by way of 'via' to y, and from y back to x.

    There is a row for every kind of map between trained agents (see `records.CYCLES`).

    Args:
        encoded: the agents of a run.
        check: called between triples.
    """
    rows: list[Row] = []
    for i, j, k in triples(encoded.experiment.agents.cameras):
        check()
        legs = [encoded.maps(*leg) for leg in ((i, j), (j, k), (k, i), (i, k))]
        for name in legs[0]:
            first, second, third, direct = (leg[name] for leg in legs)
            metrics = _measure(encoded, (i, k), (first, second, third), direct)
            rows.append({
                "x": f"agent_{i}", "y": f"agent_{k}", "via": f"agent_{j}", "row": CYCLES[name],
                "split": encoded.split.name, "method": first.method, "back": "none",
                "seed": encoded.experiment.seed, "metrics": metrics,
            })  # fmt: skip
    return rows


def _measure(
    encoded: Encoded,
    ends: tuple[int, int],
    around: tuple[alignment.LinearMap, ...],
    direct: alignment.LinearMap,
) -> dict[str, float]:
    """Measures one kind of map on held-out states.

    Returns:
        'cycle_r2' of the first agent's latents after the whole cycle; 'cycle_identity', see
        `distance_from_identity`; 'composed_r2' and 'direct_r2' of the third agent's latents.
    """
    split = encoded.split
    x, y = (encoded.latents[agent][split.test] for agent in ends)
    first, second, third = around
    composed = second.forward(first.forward(x))
    scale = direct.y_scale
    return {
        "cycle_r2": alignment.prediction_r2(third.forward(composed), x, third.y_scale),
        "cycle_identity": distance_from_identity(around),
        "composed_r2": alignment.prediction_r2(composed, y, scale),
        "direct_r2": alignment.prediction_r2(direct.forward(x), y, scale),
        "n_train": float(first.n_train),
        "n_test": float(len(split.test)),
    }


def distance_from_identity(around: tuple[alignment.LinearMap, ...]) -> float:
    """Returns ||W31 W23 W12 - I||_F / sqrt(D) on the first space as the first map scales it.

    That is on standardised latents for the regressions and on centred ones for orthogonal maps.
    0: the cycle leads back to its start; sqrt(2): a random rotation, on average of squares; a
    regression's maps shrink, so that its cycle is short of I even where all agents agree.
    """
    scale_D = around[0].x_scale
    product_DD = np.eye(len(scale_D))
    for leg in around:
        product_DD = (leg.y_scale[:, None] * leg.w / leg.x_scale) @ product_DD
    off_DD = product_DD * scale_D / scale_D[:, None] - np.eye(len(scale_D))
    return float(np.linalg.norm(off_DD) / np.sqrt(len(scale_D)))
