"""What agents know of the joints: readouts fitted and scored on either condition, with ceilings.

An image shows an angle without its turns, so a linear readout of the wrapped angles themselves does
not reach 1: it is the ceiling of every score here. Of a standard normal angle it is 0.934, and
0.949 for the best function of the wrapped angle, its conditional mean.

Shape key: A agents, N states, P pairs, D latents.
"""

import itertools
from typing import Any

import numpy as np
from scipy import stats

from experiments.findings import Rows
from experiments.reacher.runs import PROCESSES, Codes
from socialjepa_jax.data.reacher.dataset import NAMES
from socialjepa_jax.identifiability import metrics, planning

PLANS = 30
CELLS = tuple(itertools.product(PROCESSES, PROCESSES))  # fitted on, scored on


def wrapped(angles: np.ndarray) -> np.ndarray:
    """Returns angles in [-pi, pi)."""
    return (angles + np.pi) % (2 * np.pi) - np.pi


def expected(angles: np.ndarray) -> np.ndarray:
    """Returns the mean of a standard normal angle, given the angle without its turns."""
    turned = wrapped(angles)[..., None] + 2 * np.pi * np.arange(-2, 3)
    weights = stats.norm.pdf(turned)
    return (weights * turned).sum(-1) / weights.sum(-1)


def halves(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the states that readouts are fitted on, and those that they are scored on."""
    order = np.random.default_rng(0).permutation(count)
    return order[: count // 2], order[count // 2 :]


def explained(
    fitted: tuple[np.ndarray, np.ndarray], scored: tuple[np.ndarray, np.ndarray], name: str
) -> dict[str, float]:
    """Returns the R2 of a linear map of each output and of their mean, by name.

    Args:
        fitted: inputs and outputs [N, ...] of one condition; the first half is fitted on.
        scored: of the same or another condition; the second half is scored.
        name: of the columns.
    """
    rows, held_out = halves(len(fitted[0]))[0], halves(len(scored[0]))[1]
    (x, y), test = fitted, (scored[0][held_out], scored[1][held_out])
    raw = np.asarray(metrics.r2(x[rows], y[rows], multioutput="raw", held_out=test))
    pooled = metrics.r2(x[rows], y[rows], held_out=test)
    each = {f"{name}/{joint}": float(r) for joint, r in zip(NAMES, raw)}
    return {f"{name}/state": float(raw.mean()), f"{name}/pooled": float(pooled), **each}


def rows(codes: Codes) -> Rows:
    """Returns a row for every agent, with the scores of all four cells and of its plans."""
    shared = _condition(codes) | _ceilings(codes.states)
    return [shared | {"seed": seed} | _agent(codes, k) for k, seed in enumerate(codes.seeds)]


def _condition(codes: Codes) -> dict[str, Any]:
    chosen = codes.condition
    return {
        "condition": chosen.process,
        "rho": chosen.rho or None,
        "stride": None if chosen.rho else chosen.stride,
        "lambda": chosen.weight,
        "camera": chosen.camera,
    }


def _ceilings(states: dict[str, np.ndarray]) -> dict[str, float]:
    """Scores of linear readouts of the wrapped angles, and of the best guess of a normal angle."""
    found: dict[str, float] = {}
    for a, b in CELLS:
        of = [(wrapped(states[process]), states[process]) for process in (a, b)]
        found |= explained(of[0], of[1], f"ceiling {a}>{b}")
    guess = expected(states["ou"]), states["ou"]
    return found | explained(guess, guess, "best guess ou>ou")


def _agent(codes: Codes, k: int) -> dict[str, Any]:
    """Scores of one agent."""
    found: dict[str, Any] = {}
    spaces = {"": codes.latents, "untrained ": codes.untrained}
    for (start, latents), (a, b) in itertools.product(spaces.items(), CELLS):
        of = [(latents[process][k], codes.states[process]) for process in (a, b)]
        found |= explained(of[0], of[1], f"{start}{a}>{b}")
        back = [(z, h) for h, z in of]
        found[f"{start}{a}>{b}/z to h"] = explained(back[0], back[1], "")["/pooled"]
    for process in PROCESSES:
        found |= _within(codes.latents[process][k], codes.states[process], process)
    pairs = (codes.trained_pairs[k], codes.fresh_pairs[k])
    return found | dict(zip(("rho_trained", "rho_fresh"), map(correlation, pairs)))


def _within(h: np.ndarray, z: np.ndarray, process: str) -> dict[str, Any]:
    """Scores of one agent on one condition that need no second one."""
    fit, test = halves(len(z))
    own, circle = f"{process}>{process}", np.concatenate([np.sin(z), np.cos(z)], axis=1)
    turned = np.asarray(
        metrics.r2(h[fit], circle[fit], multioutput="raw", held_out=(h[test], circle[test]))
    )
    plans = planning.straight_line_plans(z, h, planning.random_pairs(len(z), PLANS))
    names = [f"{f} {joint}" for f in ("sin", "cos") for joint in NAMES]
    found = explained((h, wrapped(z)), (h, wrapped(z)), f"{own} wrapped")
    found |= {f"{own}/{name}": float(r) for name, r in zip(names, turned)}
    matrix = metrics.fit_affine(z, h)[0]
    return found | {
        f"{own}/orthogonality": metrics.orthogonality_error(matrix),
        f"{own}/deviation": float(h.std(0).min()),
        f"{own}/lengths": [round(float(x), 5) for x in plans.length_ratio],
        f"{own}/from chord": float(plans.deviation.mean()),
    }


def oracle(states: np.ndarray) -> list[float]:
    """Returns the lengths of the same plans, made and looked up in the joint angles themselves."""
    chosen = planning.random_pairs(len(states), PLANS)
    return [float(x) for x in planning.straight_line_plans(states, states, chosen).length_ratio]


def correlation(pairs_2PD: np.ndarray) -> float:
    """Returns 1 - E||h - h'||^2 / (2 tr Cov h), the correlation of successive latents."""
    distance = np.square(pairs_2PD[0] - pairs_2PD[1]).sum(1).mean(dtype=np.float64)
    trace = pairs_2PD.reshape(-1, pairs_2PD.shape[-1]).var(0, dtype=np.float64).sum()
    return float(1.0 - distance / (2.0 * trace)) if trace > 0 else float("nan")
