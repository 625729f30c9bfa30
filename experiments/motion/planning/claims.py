"""The claims on plans carried through W, each with its bound, judged by means over pairs of agents.

A carried plan is as good as an agent's own if the 95 % interval of the paired difference of their
success lies within `EQUAL`.
"""

from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Rows
from experiments.motion import pairs

EQUAL = 0.05  # of success
CHANCE = 0.15  # success of goals that say nothing


def values(rows: Rows, space: str, planner: str, goal: str, measure: str) -> list[Any]:
    """Values by pair of agents, in order."""
    where = {"space": space, "planner": planner, "goal": goal, "measure": measure}
    return findings.values(rows, "value", **where)


def claims(rows: Rows) -> list[Claim]:
    """Judges every claim."""
    return [*_own(rows), *_carried(rows), *_controls(rows), *_shapes(rows)]


def _of(
    rows: Rows, planner: str, goal: str, measure: str = "success", space: str = "trained"
) -> np.ndarray:
    return np.array(values(rows, space, planner, goal, measure), dtype=float)


def _claim(name: str, statement: str, of_pairs: np.ndarray, agrees: Any, note: str) -> Claim:
    return Claim(name, statement, float(of_pairs.mean()), bool(agrees), note, float(of_pairs.std()))


def _own(rows: Rows) -> list[Claim]:
    """What an agent reaches by its own eyes."""
    found = []
    for planner, least in (("lqr", 0.9), ("shooting", 0.8)):
        own, oracle = _of(rows, planner, "own"), _of(rows, planner, "oracle")
        found.append(
            _claim(
                f"{planner}/own goals",
                f"success of at least {least}",
                own,
                own.mean() >= least,
                f"success is {own.mean():.3f}, {oracle.mean():.3f} with the true state and model.",
            )
        )
    return found


def _carried(rows: Rows) -> list[Claim]:
    """What it reaches of what its partner has seen."""
    found = []
    for planner in ("lqr", "shooting", "track"):
        own = _of(rows, "lqr" if planner == "track" else planner, "own")
        for source in ("pairs", "actions"):
            carried = _of(rows, planner, source)
            difference = pairs.interval((carried - own).tolist())
            worst = abs(difference["mean"]) + np.nan_to_num(difference["half"])
            found.append(
                _claim(
                    f"{planner}/W from {source}",
                    f"success within {EQUAL} of own goals'",
                    carried,
                    worst <= EQUAL,
                    f"success is {carried.mean():.3f} after {own.mean():.3f} with own goals, "
                    f"a difference of {difference['mean']:+.3f} +- {difference['half']:.3f}.",
                )
            )
    return found


def _controls(rows: Rows) -> list[Claim]:
    """Goals and codes that must fail."""
    cases = {
        "no map": ("trained", "unmapped", CHANCE),
        "random rotation": ("trained", "turned", CHANCE),
        "untrained, own goals": ("untrained", "own", 0.5),
        "untrained, W from pairs": ("untrained", "pairs", 0.3),
        "pixel components, own goals": ("pixels", "own", 0.5),
        "pixel components, W from pairs": ("pixels", "pairs", 0.3),
    }
    found = []
    for name, (space, goal, most) in cases.items():
        success = _of(rows, "lqr", goal, space=space)
        end = np.mean([v[-1] for v in values(rows, space, "lqr", goal, "distance")])
        found.append(
            _claim(
                f"lqr/{name}",
                f"success of at most {most}",
                success,
                success.mean() <= most,
                f"success is {success.mean():.3f}, {end:.2f} from the goal at the end.",
            )
        )
    return found


def _shapes(rows: Rows) -> list[Claim]:
    """Shapes of paths against the oracle's and against own plans."""
    found = []
    for planner, measure in (("lqr", "detour"), ("line", "length ratio")):
        own, oracle = _of(rows, planner, "own", measure), _of(rows, planner, "oracle", measure)
        found.append(
            _claim(
                f"{planner}/own paths against the oracle's",
                f"{measure} at most 1.15 times the oracle's",
                own / oracle,
                (own / oracle).mean() <= 1.15,
                f"{measure} is {own.mean():.3f} after {oracle.mean():.3f}.",
            )
        )
        for source in ("pairs", "actions"):
            carried = _of(rows, planner, source, measure)
            found.append(
                _claim(
                    f"{planner}/paths by W from {source}",
                    f"{measure} at most 1.05 times that of own goals",
                    carried / own,
                    (carried / own).mean() <= 1.05,
                    f"{measure} is {carried.mean():.3f} after {own.mean():.3f}.",
                )
            )
    return found
