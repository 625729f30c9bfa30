"""W from shared actions: as many as latents, one, and wrong ones; rows as in `carrying`."""

from collections.abc import Callable

import numpy as np

from experiments.motion.unpaired.carrying import Pair, Rows, row_of
from socialjepa_jax import alignment
from socialjepa_jax.alignment import actions as by

CAMERA = np.radians(160.0)  # between both cameras


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
        rows += [row_of(name, count, np.mean(v), measure) for (name, measure), v in found.items()]
        rows.append(row_of("actions", count, np.min(found["actions", "W"]), "worst window"))
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
        rows.append(row_of(name, steps, np.mean(scores)))
    (window,) = pair.windows("three", steps, 1)
    b1, b2 = (pair.response(k, "three", window)[1] for k in (0, 1))
    w = by.partial_isometry(b2 @ b1.T, b1.shape[1])
    x, y = pair.held_out
    value = alignment.prediction_r2(x @ w.T, rng.permutation(y), pair.train[1].std(0))
    return [*rows, row_of("mismatched states", steps, value)]


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
        rows += [row_of(name, count, np.mean(v)) for name, v in found.items()]
    return rows
