"""What one pair of agents can carry to each other: from few pairs, and the state by actions.

Every measure is R2 on held-out states. An orthogonal map that knows nothing scores -1: two
independent codes of variance 1 are sqrt(2) apart. A row is {method, steps, measure, value}; `steps`
is the number of pairs, or of transitions T of each agent. Several disjoint stretches of a walk
("windows") are averaged, so that a pair of agents counts once.

Shape key: N states, D and E features, T steps, L latents, M actions.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.alignment import actions as by
from socialjepa_jax.evaluation import readouts
from socialjepa_jax.evaluation.readouts import r2_of_states
from socialjepa_jax.evaluation.splits import Split

Codes = dict[str, np.ndarray]
Rows = list[dict[str, Any]]
DRAWS = 20  # of a few pairs
RIDGES = tuple(np.logspace(-4, 3, 22))


class Pair:
    """Two agents in one space, as functions of what was kept of them."""

    def __init__(self, agents: Sequence[Codes], space: str, white: bool = False) -> None:
        """Takes what `walkers` kept.

        Args:
            agents: the first and the second.
            space: "trained", "untrained", "pixels" or "inverse_T".
            white: True: whitened by each agent's own training states, for codes of any scale.
        """
        first, second = agents
        self.codes, self.space = (first, second), space
        self.test = first["test"]
        train = np.asarray(~self.test)
        self.frames = []
        for codes in self.codes:
            h = codes[f"{space}/states"][train].astype(np.float64)
            mean, turn = h.mean(0), np.eye(h.shape[1])
            if white:
                turn = whitener(h)
            self.frames.append((mean, turn))
        x, y = (self.of(k, "states") for k in (0, 1))
        self.train, self.held_out = (x[train], y[train]), (x[self.test], y[self.test])

    def of(self, agent: int, what: str) -> np.ndarray:
        """Returns centred latents f64[., D] of an agent's states or walk."""
        mean, turn = self.frames[agent]
        return (self.codes[agent][f"{self.space}/{what}"] - mean) @ turn

    def r2(self, w_ED: np.ndarray, offset_E: np.ndarray | float = 0.0) -> float:
        """Returns R2 of y ~ W x + offset, both centred by training states, on held-out ones."""
        x, y = self.held_out
        return alignment.prediction_r2(x @ w_ED.T + offset_E, y, self.train[1].std(0))

    def windows(self, walk: str, steps: int, most: int = 10) -> Iterator[tuple[slice, slice]]:
        """Yields the rows of states and of actions of disjoint stretches."""
        length = len(self.codes[0][f"{walk}/actions"])
        for start in range(0, length - steps + 1, steps)[:most]:
            yield slice(start, start + steps + 1), slice(start, start + steps)

    def response(
        self, agent: int, walk: str, rows: tuple[slice, slice],
        relabel: Callable[[np.ndarray], np.ndarray] = lambda a: a, centre: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Fits (A, B) of one stretch; `centre` by the stretch itself, which is a mistake."""
        h = self.of(agent, walk)[rows[0]]
        known = relabel(self.codes[agent][f"{walk}/actions"][rows[1]].astype(np.float64))
        return by.response(h, known, h.mean(0) if centre else np.zeros(h.shape[1]))

    def passive(self, agent: int) -> np.ndarray:
        """Fits A of the trajectory without known actions."""
        h = self.of(agent, "passive")
        return by.transition(h, np.zeros(h.shape[1]))


def whitener(h_ND: np.ndarray) -> np.ndarray:
    """Returns the matrix f64[D, D] that gives centred latents unit covariance, h @ matrix."""
    values, axes = np.linalg.eigh(np.cov(h_ND.T))
    return axes / np.sqrt(values)


def row_of(method: str, steps: int | None, value: Any, measure: str = "W") -> dict[str, Any]:
    """Returns one row."""
    return {"method": method, "steps": steps, "measure": measure, "value": float(value)}


def from_pairs(pair: Pair, counts: tuple[int, ...]) -> Rows:
    """R2 of W from some paired observations; the means are those of all training states.

    "procrustes": the partial isometry that so many pairs fix; "rotation": the same with its last
    direction from the handedness of the map, which is told; "ridge": the best strength on the
    held-out states, which no user knows.
    """
    x, y = pair.train
    rng, dim = np.random.default_rng(0), x.shape[1]
    hand = np.linalg.det(by.partial_isometry(y.T @ x, dim))
    rows: Rows = []
    for count in (*counts, len(x)):
        found: dict[str, list] = {"procrustes": [], "rotation": [], "ridge": []}
        for _ in range(DRAWS if count < len(x) else 1):
            chosen = rng.choice(len(x), count, replace=False)
            few_x, few_y = x[chosen], y[chosen]
            cross = few_y.T @ few_x
            u, _, vt = np.linalg.svd(cross)
            last = np.append(np.ones(dim - 1), np.sign(hand * np.linalg.det(u @ vt)))
            found["procrustes"].append(pair.r2(by.partial_isometry(cross, count)))
            found["rotation"].append(pair.r2((u * last) @ vt))
            gram = few_x.T @ few_x
            ridges = [cross @ np.linalg.inv(gram + r * np.eye(dim)) for r in RIDGES]
            found["ridge"].append([pair.r2(w) for w in ridges])
        rows += [row_of(k, count, np.mean(v, axis=0).max()) for k, v in found.items()]
    return rows


def motor(pair: Pair, steps: tuple[int, ...]) -> Rows:
    """R2 of the state in motor coordinates, no label, and by own labels; mean of both agents."""
    rows: Rows = []
    split = Split("states", np.flatnonzero(~pair.test), np.flatnonzero(pair.test))
    both = range(2)
    own = [_readout_r2(pair, k, split) for k in both]
    rows.append(row_of(f"{pair.space}, own labels", None, np.mean(own), "state"))
    for count in steps:
        scores = []
        for k, window in itertools.product(both, list(pair.windows("three", count))):
            h, states = pair.of(k, "states"), pair.codes[k]["states"]
            b = pair.response(k, "three", window)[1]
            readout = by.motor_readout(b, np.cov(pair.train[k].T), pair.codes[k]["three/push"])
            predicted = h[split.test] @ readout.T
            scores.append(r2_of_states(predicted, states[split.test]).mean())
        rows.append(row_of(f"{pair.space}, motor", count, np.mean(scores), "state"))
    return rows


def _readout_r2(pair: Pair, agent: int, split: Split) -> float:
    states = pair.codes[agent]["states"]
    return float(readouts.readout_r2(pair.of(agent, "states"), states, split).mean())


def paired(pair: Pair) -> Rows:
    """R2 of W from all training pairs, of codes of any scale."""
    x, y = pair.train
    ridge = alignment.fit(x, y, ridge=1e-3)
    test_x, test_y = pair.held_out
    return [
        row_of(f"{pair.space}, paired", len(x), pair.r2(by.partial_isometry(y.T @ x, x.shape[1]))),
        row_of(f"{pair.space}, paired ridge", len(x), alignment.r2(ridge, test_x, test_y)),
    ]
