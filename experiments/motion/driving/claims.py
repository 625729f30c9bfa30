"""The claims on three cameras of a drive, each with its bound, judged by means over repetitions."""

from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Rows
from socialjepa_jax.records import RowName

DRIVEN = "steering"
CELL = RowName.MISMATCHED_CELL


def values(rows: Rows, measure: str, run: str, row: str = RowName.TRAINED) -> np.ndarray:
    """Returns a measure of each repetition, the mean over pairs of cameras; NaN without any."""
    chosen = findings.select(rows, run=run, row=str(row))
    by_repetition: dict[int, list[float]] = {}
    for found in chosen:
        if measure in found:
            by_repetition.setdefault(found["repetition"], []).append(found[measure])
    return np.array([np.mean(of) for of in by_repetition.values()] or [np.nan])


def claims(rows: Rows, states: tuple[str, ...]) -> list[Claim]:
    """Judges every claim; NaN agrees with nothing.

    Args:
        rows: of all repetitions.
        states: of the recording; the claims on a state are about steering, or the first one.
    """
    state = DRIVEN if DRIVEN in states else states[0]
    return [*_maps(rows), *_states(rows, state), *_leaks(rows, state)]


def _claim(name: str, statement: str, found: np.ndarray, agrees: Any, note: str) -> Claim:
    return Claim(name, statement, float(found.mean()), bool(agrees), note, float(found.std()))


def _maps(rows: Rows) -> list[Claim]:
    """What R2 of W owes to training, and to the stretch of road."""

    def r2(run: str, row: str = RowName.TRAINED) -> np.ndarray:
        return values(rows, "r2", run, row)

    lejepa, ijepa = r2("LeJEPA"), r2("I-JEPA")
    hidden, outputs = r2("LeJEPA", RowName.UNTRAINED_HIDDEN), r2("LeJEPA", RowName.UNTRAINED)
    fresh, strangers = r2("I-JEPA", RowName.UNTRAINED), r2("LeJEPA, strangers")
    found = [
        _claim(
            "LeJEPA adds to W", "R2 of W is .2 above untrained encoders of equal outputs",
            lejepa - outputs, np.mean(lejepa - outputs) >= 0.2,
            f"{lejepa.mean():.3f} trained, {outputs.mean():.3f} untrained.",
        ),
        _claim(
            "but little to the untrained hidden layer", "at most .1 above it",
            lejepa - hidden, np.mean(lejepa - hidden) <= 0.1,
            f"{lejepa.mean():.3f} in 8 outputs, {hidden.mean():.3f} in 128 untrained features.",
        ),
        _claim(
            "LeJEPA needs motion", "R2 of W is .1 above training on strangers",
            lejepa - strangers, np.mean(lejepa - strangers) >= 0.1,
            f"{lejepa.mean():.3f} on successive frames, {strangers.mean():.3f} on strangers.",
        ),
        _claim(
            "I-JEPA adds nothing to W", "R2 of W is at most .02 above untrained encoders",
            ijepa - fresh, np.mean(ijepa - fresh) <= 0.02,
            f"{ijepa.mean():.3f} trained, {fresh.mean():.3f} untrained.",
        ),
    ]  # fmt: skip
    for run, right in (("LeJEPA", lejepa), ("I-JEPA", ijepa)):
        near = r2(run, CELL)
        found.append(
            _claim(
                f"{run}: the road is much of W",
                "pairs shuffled within 7 s of driving keep .4 of R2 of W",
                near / right, near.mean() >= 0.4 * right.mean(),
                f"{near.mean():.3f} of {right.mean():.3f}.",
            )
        )  # fmt: skip
    composed, direct = (
        values(rows, f"{way}_r2", "I-JEPA", RowName.CYCLE) for way in ("composed", "direct")
    )
    found.append(
        _claim(
            "maps compose", "W by way of the second camera is within .1 of the direct one",
            direct - composed, np.mean(direct - composed) <= 0.1,
            f"I-JEPA: {composed.mean():.3f} composed, {direct.mean():.3f} direct.",
        )
    )  # fmt: skip
    return found


def _states(rows: Rows, state: str) -> list[Claim]:
    """What is read of the driver, and carried."""
    found = []
    for run in ("LeJEPA", "I-JEPA"):
        own = values(rows, f"state_r2/{state}", run)
        carried = values(rows, f"readout_carried/{state}", run)
        found += [
            _claim(
                f"{run}: {state} is not read", "R2 in held-out blocks is at most .1",
                own, own.mean() <= 0.1, f"R2 is {own.mean():.3f}.",
            ),
            _claim(
                f"{run}: {state} carried", "at most .1 below the second camera's own readout",
                own - carried, np.mean(own - carried) <= 0.1,
                f"{carried.mean():.3f} carried, {own.mean():.3f} by its own labels.",
            ),
        ]  # fmt: skip
    pixels = values(rows, f"state_r2/{state}", "LeJEPA", RowName.ALL_PIXELS)
    found.append(
        _claim(
            f"all pixels do not say {state}", "R2 of a readout by labels is at most .1",
            pixels, pixels.mean() <= 0.1, f"R2 is {pixels.mean():.3f} in held-out blocks.",
        )
    )  # fmt: skip
    return found


def _leaks(rows: Rows, state: str) -> list[Claim]:
    """What holding out single moments would seem to show."""
    found = []
    for measure, name in (("r2", "W"), (f"state_r2/{state}", state)):
        blocks, moments = (values(rows, measure, run) for run in ("LeJEPA", "LeJEPA, moments"))
        found.append(
            _claim(
                f"single moments leak: {name}",
                "R2 is .05 higher if single moments are held out in the place of blocks",
                moments - blocks, np.mean(moments - blocks) >= 0.05,
                f"{moments.mean():.3f} on single moments, {blocks.mean():.3f} on blocks.",
            )
        )  # fmt: skip
    return found
