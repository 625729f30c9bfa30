"""Maps between three agents on three cameras: around the cycle, and by way of the second.

Maps between agents that hold the same state must compose: W31 W23 W12 = I, and W23 W12 = W13
(Wij maps agent i to j).

Shape key: N states, D latent dimensions.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.evaluation.evidence import Encoded
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.evaluation.table import Row
from socialjepa_jax.records import CYCLES, RowName


def triples(cameras: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yields all triples i < j < k of agents on three different cameras."""
    for i, j, k in itertools.combinations(range(len(cameras)), 3):
        if len({cameras[i], cameras[j], cameras[k]}) == 3:
            yield i, j, k


def cycle_rows(encoded: Encoded, check: Callable[[], None] = lambda: None) -> list[Row]:
    """Returns the rows of every triple: x by way of 'via' to y, and from y back to x.

    There is a row for every kind of map between trained agents, and one for untrained encoders
    (see `records.CYCLES`).

    Args:
        encoded: the agents of a run.
        check: called between triples.
    """
    rows: list[Row] = []
    for i, j, k in triples(encoded.experiment.agents.cameras):
        check()
        trained = [encoded.maps(*leg) for leg in _legs(i, j, k)]
        kinds = {n: (encoded.latents, tuple(leg[n] for leg in trained)) for n in trained[0]}
        z = encoded.evidence.untrained
        kinds[RowName.UNTRAINED] = z, tuple(encoded.fit(z[a], z[b]) for a, b in _legs(i, j, k))
        for name, (latents, maps) in kinds.items():
            rows.append({
                "x": f"agent_{i}", "y": f"agent_{k}", "via": f"agent_{j}", "row": CYCLES[name],
                "split": encoded.split.name, "method": maps[0].method, "back": "none",
                "seed": encoded.experiment.seed,
                "metrics": _measure(latents[i], latents[k], encoded.split, maps),
            })  # fmt: skip
    return rows


def _legs(i: int, j: int, k: int) -> tuple[tuple[int, int], ...]:
    """The three legs of the cycle, and the direct way."""
    return (i, j), (j, k), (k, i), (i, k)


def _measure(
    x: np.ndarray, y: np.ndarray, split: Split, maps: tuple[alignment.LinearMap, ...]
) -> dict[str, float]:
    """Measures one kind of map on held-out states.

    Args:
        x, y: f32[N, D], latents of the first and of the third agent.
        split: of the states.
        maps: of the three legs, and the direct one.

    Returns:
        'cycle_r2' of x after the whole cycle; 'cycle_identity', see `distance_from_identity`;
        'composed_r2' and 'direct_r2' of y.
    """
    x, y = x[split.test], y[split.test]
    first, second, third, direct = maps
    composed = second.forward(first.forward(x))
    return {
        "cycle_r2": alignment.prediction_r2(third.forward(composed), x, third.y_scale),
        "cycle_identity": distance_from_identity(maps[:3]),
        "composed_r2": alignment.prediction_r2(composed, y, direct.y_scale),
        "direct_r2": alignment.prediction_r2(direct.forward(x), y, direct.y_scale),
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
