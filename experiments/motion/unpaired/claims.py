"""The claims on few pairs and none, each with its bound, judged by means over pairs of agents."""

from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Rows

WORLDS = ("equal", "distinct")
T, LONG, SHORT = 3000, 10_000, 1000  # transitions
BEST_LAGS = "lags 1 to 12"


def claims(rows: Rows) -> list[Claim]:
    """Judges every claim whose rows are there; NaN agrees with nothing."""
    return [*_few(rows), *_actions(rows), *_one_action(rows), *_controls(rows), *_rivals(rows),
            *_blind(rows), *_dictionary(rows)]  # fmt: skip


def _value(rows: Rows, world: str, method: str, steps: int | None, measure: str = "W") -> float:
    where = {"world": world, "method": method, "steps": steps, "measure": measure}
    return findings.mean(rows, "value", **where)


def _values(rows: Rows, world: str, method: str, steps: int | None, measure: str = "W") -> list:
    """Values by pair of agents; NaN if there is no such row, as at the scale "smoke"."""
    where = {"world": world, "method": method, "steps": steps, "measure": measure}
    found = [value for row in findings.select(rows, **where) for value in row["values"]]
    return found or [float("nan")]


def _paired(rows: Rows, world: str) -> float:
    """R2 of the orthogonal map of all training pairs."""
    chosen = findings.select(rows, world=world, method="trained, paired")
    return findings.mean(chosen, "value")


def _claim(
    name: str, statement: str, values: Any, agrees: Any, note: str, because: str = ""
) -> Claim:
    """A claim on the mean of values of pairs of agents."""
    mean, std = float(np.mean(values)), float(np.std(values))
    return Claim(name, statement, mean, bool(agrees), note, std, because)


def _few(rows: Rows) -> list[Claim]:
    """Pairs that fix W where D = n = 3."""
    found = []
    for world in WORLDS:
        told, procrustes, ridge = (
            {k: _values(rows, world, method, k) for k in (2, 3, 5)}
            for method in ("rotation", "procrustes", "ridge")
        )
        found += [
            _claim(
                f"{world}/D - 1 pairs fix a rotation",
                "R2 of W is at least .8 from 2 pairs if the handedness is told",
                told[2], np.mean(told[2]) >= 0.8,
                f"R2 is {np.mean(told[2]):.3f} from 2 pairs with the handedness, "
                f"{np.mean(procrustes[2]):.3f} without; {np.mean(told[3]):.3f} and "
                f"{np.mean(procrustes[3]):.3f} from 3.",
            ),
            _claim(
                f"{world}/a reflection needs one more",
                "R2 of W is at most .7 from 2 pairs without the handedness",
                procrustes[2], np.mean(procrustes[2]) <= 0.7,
                f"R2 is {np.mean(procrustes[2]):.3f}, of two thirds that 2 directions can carry.",
            ),
            _claim(
                f"{world}/ridge needs more pairs",
                "Procrustes is at least .02 above the best ridge at 5 pairs",
                np.subtract(procrustes[5], ridge[5]),
                np.mean(procrustes[5]) - np.mean(ridge[5]) >= 0.02,
                f"from 5 pairs {np.mean(procrustes[5]):.3f} against {np.mean(ridge[5]):.3f}.",
            ),
        ]  # fmt: skip
    return found


def _actions(rows: Rows) -> list[Claim]:
    """Three known actions against all pairs, and the loss that noise predicts."""
    found = []
    for world in WORLDS:
        paired = _paired(rows, world)
        gap = paired - np.array(_values(rows, world, "actions", T))
        loss = paired - _value(rows, world, "actions", SHORT)
        expected = _value(rows, world, "actions", SHORT, "expected loss")
        own, told = (_value(rows, world, m, 100) for m in ("own mean", "actions"))
        motor, labels = (
            _value(rows, world, f"trained, {m}", s, "state")
            for m, s in (("motor", LONG), ("own labels", None))
        )
        found += [
            _claim(
                f"{world}/three actions", f"within .01 of all pairs at {T} transitions", gap,
                np.mean(gap) <= 0.01, f"{paired - np.mean(gap):.3f} after {paired:.3f} paired.",
            ),
            _claim(
                f"{world}/predicted loss", "(n - 1) sigma^2 / (T g^2) within a factor 1.5",
                [loss / expected], 1 / 1.5 <= loss / expected <= 1.5,
                f"at {SHORT} transitions R2 loses {loss:.4f}, predicted {expected:.4f}.",
            ),
            _claim(
                f"{world}/the state in motor coordinates",
                f"within .01 of own labels at {LONG} transitions", [labels - motor],
                labels - motor <= 0.01, f"R2 of the state is {motor:.3f} after {labels:.3f}.",
            ),
            _claim(
                f"{world}/the mean of a short walk misleads",
                "at 100 transitions R2 of W loses at least .1 by it", [told - own],
                told - own >= 0.1, f"{own:.3f} after {told:.3f} by passive frames.",
            ),
        ]  # fmt: skip
    return found


def _one_action(rows: Rows) -> list[Claim]:
    """A single action, which must be enough with distinct rates and not with equal ones."""
    found = []
    paired = _paired(rows, "distinct")
    for kind in ("axes", "joint"):
        values = _values(rows, "distinct", f"one action, {kind}", T)
        gap = paired - np.array(values)
        found.append(
            _claim(
                f"distinct/one action, {kind}", f"within .02 of all pairs at {T} transitions",
                gap, np.mean(gap) <= 0.02,
                f"{np.mean(values):.3f} after {paired:.3f} paired, the worst pair of agents "
                f"{min(values):.3f}.",
            )
        )  # fmt: skip
    values = _values(rows, "equal", "one action, joint", T)
    found.append(
        _claim(
            "equal/one action", "R2 of W is at most .5: rates that are equal leave a rotation",
            values, np.mean(values) <= 0.5,
            f"{np.mean(values):.3f}, from {min(values):.3f} to "
            f"{max(values):.3f} over pairs of agents.",
        )
    )  # fmt: skip
    return found


def _controls(rows: Rows) -> list[Claim]:
    """Wrong actions, whose level of chance is -1."""
    bounds = {"labels permuted": -0.5, "shuffled in time": 0.0, "camera's frame": -1.0,
              "mismatched states": -0.5}  # fmt: skip
    found = []
    for world in WORLDS:
        for name, most in bounds.items():
            values = _values(rows, world, name, T)
            found.append(
                _claim(f"{world}/{name}", f"R2 of W is at most {most:g}", values,
                       np.mean(values) <= most, f"{np.mean(values):.3f}.")
            )  # fmt: skip
    return found


def _rivals(rows: Rows) -> list[Claim]:
    """The state in motor coordinates by rivals, at equal transitions."""
    found = []
    for world in WORLDS:
        rivals = {"untrained": (0.3, T), "pixels": (0.3, T)}
        if world == "equal":
            rivals |= {f"inverse_{count}": (0.02, count) for count in (T, LONG)}
        for space, (least, count) in rivals.items():
            ours, theirs = (
                np.array(_values(rows, world, f"{name}, motor", count, "state"))
                for name in ("trained", space)
            )
            labels = _value(rows, world, f"{space}, own labels", None, "state")
            gap = ours - theirs
            found.append(
                _claim(
                    f"{world}/{space}",
                    f"R2 of the state in motor coordinates is at least {least:g} below the agents'",
                    gap, np.mean(gap) >= least,
                    f"{np.mean(theirs):.3f} (own labels {labels:.3f}) after {np.mean(ours):.3f} at "
                    f"{count} transitions.",
                )
            )  # fmt: skip
    return found


def _blind(rows: Rows) -> list[Claim]:
    """Axes from rates alone, and their signs from one pair."""
    count = max((r["steps"] or 0 for r in rows if "signs told" in r["method"]), default=0)
    told, lag_1 = (
        _values(rows, "distinct", f"{lags}, signs told", count) for lags in (BEST_LAGS, "lag 1")
    )
    random = _values(rows, "distinct", f"{BEST_LAGS}, random pairs", 1)
    right = _value(rows, "distinct", f"{BEST_LAGS}, random pairs", 1, "right signs")
    aslant = _value(rows, "distinct", "noise", None, "aslant")
    chosen = _values(rows, "distinct", f"{BEST_LAGS}, chosen pair", 1)
    return [
        _claim("distinct/axes by several lags", "R2 of W is at least .9, signs told", told,
               np.mean(told) >= 0.9, f"{np.mean(told):.3f} by {BEST_LAGS}."),
        _claim("distinct/lag 1 is not enough", "R2 of W is at most .6, signs told", lag_1,
               np.mean(lag_1) <= 0.6,
               f"{np.mean(lag_1):.3f} by lag 1; the codes' noise aslant the axes is {aslant:.3f} "
               "of a latent's variance."),
        _claim("distinct/signs by one pair", "within .02 of signs told, the pair chosen by agent 1",
               np.subtract(told, chosen), np.mean(told) - np.mean(chosen) <= 0.02,
               f"{np.mean(chosen):.3f} after {np.mean(told):.3f}; a random pair has all signs "
               f"right in {100 * right:.0f} % of draws and R2 {np.mean(random):.3f}."),
    ]  # fmt: skip


def _dictionary(rows: Rows) -> list[Claim]:
    """A wrong dictionary of actions, seen by rates alone."""
    found = []
    reasons = {
        "distinct": "one wrong order is all but a sign change of one axis, which rates cannot see",
        "equal": "each latent is seen with noise of its own, so the rates of codes are not equal",
    }
    for world, sees in (("distinct", True), ("equal", False)):
        values = _values(rows, world, "dictionary", T, "right order")
        share = np.mean(values)
        statement = "at least .95" if sees else "at most .5"
        found.append(
            _claim(
                f"{world}/the right names of actions",
                f"found out of six orders in {statement} of stretches", values,
                share >= 0.95 if sees else share <= 0.5,
                f"in {share:.2f} of stretches of {T} transitions; chance is .17.",
                reasons[world],
            )
        )  # fmt: skip
    return found
