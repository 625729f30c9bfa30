"""W from how fast each latent forgets, and wrong names of actions seen by it; as in `carrying`."""

import itertools

import numpy as np

from experiments.motion.unpaired.carrying import Pair, Rows, row_of
from socialjepa_jax.alignment import actions as by
from socialjepa_jax.identifiability import separation
from socialjepa_jax.identifiability.metrics import fit_affine

LAGS = {"lag 1": (1,), "lag 8": (8,), "lags 1 to 12": tuple(range(1, 13))}
CANDIDATES = 100  # moments among which an agent chooses the one pair


def without_actions(pair: Pair) -> Rows:
    """R2 of W by blind separation, with signs told or from pairs; `steps` is their number."""
    rows = [row for name, lags in LAGS.items() for row in _separated(pair, name, lags)]
    return rows + _noise(pair)


def _noise(pair: Pair) -> Rows:
    """Variance of what the state does not explain of a code, in units of the state's axes.

    Along the axes it lowers rates; aslant it turns the axes of short lags.
    """
    along, aslant = [], []
    for k in (0, 1):
        m_DL, offset_D = fit_affine(pair.codes[k]["states"], pair.of(k, "states"))
        left = pair.of(k, "states") - pair.codes[k]["states"] @ m_DL.T - offset_D
        covariance = np.cov(np.linalg.solve(m_DL, left.T))
        along.append(np.diagonal(covariance).mean())
        aslant.append(np.abs(covariance - np.diag(np.diagonal(covariance))).max())
    return [row_of("noise", None, np.mean(along), "along the axes"),
            row_of("noise", None, np.mean(aslant), "aslant")]  # fmt: skip


def _separated(pair: Pair, name: str, lags: tuple[int, ...]) -> Rows:
    """R2 of the axes at some lags: signs told, from random pairs, and from one chosen pair.

    The first agent chooses the moment, out of a hundred, at which the least of its sources is
    largest; the second one is only told what it sees there.
    """
    rng, count = np.random.default_rng(2), len(pair.train[0])
    x, y = (
        separation.separate(walk, lags, np.zeros(walk.shape[1]))
        for walk in (pair.of(k, "passive") for k in (0, 1))
    )

    def signs(chosen: np.ndarray) -> np.ndarray:
        return separation.signs_of_pairs(x, y, *(z[chosen] for z in pair.train))

    def scored(chosen: np.ndarray) -> float:
        return pair.r2(separation.map_of_sources(x, y, signs(chosen)))

    everything = np.arange(count)
    rows = [row_of(f"{name}, signs told", count, scored(everything))]
    for few in (1, 5):
        draws = [rng.choice(count, few, replace=False) for _ in range(100)]
        right = [np.array_equal(signs(d), signs(everything)) for d in draws]
        rows.append(row_of(f"{name}, random pairs", few, np.mean([scored(d) for d in draws])))
        rows.append(row_of(f"{name}, random pairs", few, np.mean(right), "right signs"))
    seen = rng.choice(count, min(CANDIDATES, count), replace=False)
    clearest = seen[np.argmax(np.abs(x(pair.train[0][seen])).min(1))][None]
    return [*rows, row_of(f"{name}, chosen pair", 1, scored(clearest))]


def dictionary(pair: Pair, steps: tuple[int, ...]) -> Rows:
    """Share of stretches in which the right names of three actions fit A best, out of six orders.

    The map of each order is that of B alone, and is judged by ||W A1 W^T - A2||.
    """
    a1, a2 = (pair.passive(k) for k in (0, 1))
    rows: Rows = []
    for count in steps:
        right = []
        for window in pair.windows("three", count):
            b1, b2 = (pair.response(k, "three", window)[1] for k in (0, 1))
            orders = list(itertools.permutations(range(b2.shape[1])))
            maps = [by.partial_isometry(b2[:, order] @ b1.T, len(b1.T)) for order in orders]
            right.append(np.argmin([np.linalg.norm(w @ a1 @ w.T - a2) for w in maps]) == 0)
        rows.append(row_of("dictionary", count, np.mean(right), "right order"))
    return rows
