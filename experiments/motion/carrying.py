"""What one pair of agents can carry to each other from few pairs, from actions and from neither.

Every measure is R2 on held-out states. An orthogonal map that knows nothing scores -1: two
independent codes of variance 1 are sqrt(2) apart. A row is {method, steps, measure, value}; `steps`
is the number of pairs, or of transitions T of each agent. Several disjoint stretches of a walk
("windows") are averaged, so that a pair of agents counts once.

Shape key: N states, D and E features, T steps, L latents, M actions, P permutations.
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
from socialjepa_jax.identifiability import separation
from socialjepa_jax.identifiability.metrics import fit_affine

Codes = dict[str, np.ndarray]
Rows = list[dict[str, Any]]
DRAWS = 20  # of a few pairs
RIDGES = tuple(np.logspace(-4, 3, 22))
LAGS = {"lag 1": (1,), "lag 8": (8,), "lags 1 to 12": tuple(range(1, 13))}
CAMERA = np.radians(160.0)  # between both cameras
CANDIDATES = 100  # moments among which an agent chooses the one pair


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
                values, axes = np.linalg.eigh(np.cov(h.T))
                turn = axes / np.sqrt(values)
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


def _row(method: str, steps: int | None, value: Any, measure: str = "W") -> dict[str, Any]:
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
        rows += [_row(k, count, np.mean(v, axis=0).max()) for k, v in found.items()]
    return rows


def from_actions(pair: Pair, steps: tuple[int, ...]) -> Rows:
    """R2 of W by as many actions as features, its predicted loss, and the mean's pitfall."""
    rows: Rows = []
    for count in steps:
        found: dict[tuple[str, str], list[float]] = {}
        for window in pair.windows("three", count):
            (_, b1), (_, b2) = fits = [pair.response(k, "three", window) for k in (0, 1)]
            r2 = pair.r2(by.partial_isometry(b2 @ b1.T, b1.shape[1]))
            found.setdefault(("actions", "W"), []).append(r2)
            expected = _expected(pair, fits, window)
            found.setdefault(("actions", "expected loss"), []).append(expected)
            found.setdefault(("own mean", "W"), []).append(_centred_by_itself(pair, window))
        rows += [_row(name, count, np.mean(v), measure) for (name, measure), v in found.items()]
        rows.append(_row("actions", count, np.min(found["actions", "W"]), "worst window"))
    return rows


def _centred_by_itself(pair: Pair, window: tuple[slice, slice]) -> float:
    """R2 of the map that takes the means of the stretch for those of the law."""
    (_, b1), (_, b2) = (pair.response(k, "three", window, centre=True) for k in (0, 1))
    w_ED = by.partial_isometry(b2 @ b1.T, b1.shape[1])
    means = [pair.of(k, "three")[window[0]].mean(0) for k in (0, 1)]
    return pair.r2(w_ED, means[1] - w_ED @ means[0])


def _expected(pair: Pair, fits: list, window: tuple[slice, slice]) -> float:
    """Expected loss from the residuals and gains of both agents."""
    residual, gain = [], []
    for k, (a, b) in enumerate(fits):
        h = pair.of(k, "three")[window[0]]
        known = pair.codes[k]["three/actions"][window[1]]
        residual.append(np.square(h[1:] - h[:-1] @ a.T - known @ b.T).mean())
        gain.append(np.square(b).sum() / b.shape[1])
    steps = window[1].stop - window[1].start
    return by.expected_loss(len(fits[0][1]), np.mean(residual), steps, np.mean(gain))


def wrong_actions(pair: Pair, steps: int) -> Rows:
    """R2 of W by actions whose names, times, frames or states are wrong; chance is -1."""
    rng = np.random.default_rng(1)
    push = pair.codes[1]["three/push"]
    directions = push / np.linalg.norm(push, axis=1, keepdims=True)
    c, s = np.cos(CAMERA), np.sin(CAMERA)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    wrong: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "labels permuted": lambda a: a[:, [1, 2, 0]],
        "shuffled in time": rng.permutation,
        "camera's frame": lambda a: a @ directions.T @ turn.T @ directions,
    }
    rows: Rows = []
    for name, relabel in wrong.items():
        scores = []
        for window in pair.windows("three", steps):
            b1 = pair.response(0, "three", window)[1]
            b2 = pair.response(1, "three", window, relabel)[1]
            scores.append(pair.r2(by.partial_isometry(b2 @ b1.T, b1.shape[1])))
        rows.append(_row(name, steps, np.mean(scores)))
    (window,) = pair.windows("three", steps, 1)
    b1, b2 = (pair.response(k, "three", window)[1] for k in (0, 1))
    w = by.partial_isometry(b2 @ b1.T, b1.shape[1])
    x, y = pair.held_out
    value = alignment.prediction_r2(x @ w.T, rng.permutation(y), pair.train[1].std(0))
    return [*rows, _row("mismatched states", steps, value)]


def from_one_action(pair: Pair, steps: tuple[int, ...]) -> Rows:
    """R2 of W by one action that moves every latent, with A of the passive trajectory."""
    passive = [pair.passive(k) for k in (0, 1)]
    rows: Rows = []
    for count in steps:
        found: dict[str, list[float]] = {}
        for window in pair.windows("one", count):
            own, b = zip(*(pair.response(k, "one", window) for k in (0, 1)))
            both = list(zip(passive, b))
            maps = {
                "one action, B alone": by.partial_isometry(b[1] @ b[0].T, 1),
                "one action, axes": by.map_of_axes(both[0], both[1]),
                "one action, joint": by.joint_map(both[0], both[1]),
                "one action, joint, own A": by.joint_map((own[0], b[0]), (own[1], b[1])),
            }
            for name, w in maps.items():
                found.setdefault(name, []).append(pair.r2(w))
        rows += [_row(name, count, np.mean(v)) for name, v in found.items()]
    return rows


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
    return [_row("noise", None, np.mean(along), "along the axes"),
            _row("noise", None, np.mean(aslant), "aslant")]  # fmt: skip


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
    rows = [_row(f"{name}, signs told", count, scored(everything))]
    for few in (1, 5):
        draws = [rng.choice(count, few, replace=False) for _ in range(100)]
        right = [np.array_equal(signs(d), signs(everything)) for d in draws]
        rows.append(_row(f"{name}, random pairs", few, np.mean([scored(d) for d in draws])))
        rows.append(_row(f"{name}, random pairs", few, np.mean(right), "right signs"))
    seen = rng.choice(count, min(CANDIDATES, count), replace=False)
    clearest = seen[np.argmax(np.abs(x(pair.train[0][seen])).min(1))][None]
    return [*rows, _row(f"{name}, chosen pair", 1, scored(clearest))]


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
        rows.append(_row("dictionary", count, np.mean(right), "right order"))
    return rows


def motor(pair: Pair, steps: tuple[int, ...]) -> Rows:
    """R2 of the state in motor coordinates, no label, and by own labels; mean of both agents."""
    rows: Rows = []
    split = Split("states", np.flatnonzero(~pair.test), np.flatnonzero(pair.test))
    both = range(2)
    own = [_readout_r2(pair, k, split) for k in both]
    rows.append(_row(f"{pair.space}, own labels", None, np.mean(own), "state"))
    for count in steps:
        scores = []
        for k, window in itertools.product(both, list(pair.windows("three", count))):
            h, states = pair.of(k, "states"), pair.codes[k]["states"]
            b = pair.response(k, "three", window)[1]
            readout = by.motor_readout(b, np.cov(pair.train[k].T), pair.codes[k]["three/push"])
            predicted = h[split.test] @ readout.T
            scores.append(r2_of_states(predicted, states[split.test]).mean())
        rows.append(_row(f"{pair.space}, motor", count, np.mean(scores), "state"))
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
        _row(f"{pair.space}, paired", len(x), pair.r2(by.partial_isometry(y.T @ x, x.shape[1]))),
        _row(f"{pair.space}, paired ridge", len(x), alignment.r2(ridge, test_x, test_y)),
    ]
