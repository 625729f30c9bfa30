"""What goes wrong in a method's training and what its R2 hides, a sentence each, from the rows.

The first rule that applies makes the sentence.
"""

# ruff: noqa: RUF001 (a true times sign is meant)

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Rows
from experiments.rivals.tables import measures
from experiments.rivals.tables.reading import gain, mean
from socialjepa_jax.records import RowName

COLLAPSED, LOW_RANK = 2.0, 10.0  # RankMe; of 48 dimensions
HALF = 0.5  # of RankMe before training
PAST = 0.02  # of area, that a run loses after its best checkpoint
UNTUNED = 0.1  # of a probe's accuracy, between the best trial and the worst
FACTORS = 0.3  # of R2, that lighting and elevation make up
CARRIED = 0.15  # of a probe's accuracy, that is lost on the way


def how_it_fails(rows: Rows, name: str) -> str:
    """Returns one sentence on the training of a method."""
    return next(_of_training(rows, name))


def what_r2_hides(rows: Rows, name: str) -> str:
    """Returns one sentence on what R2 of W of a method does not say."""
    return next(_of_r2(rows, name))


def _of_training(rows: Rows, name: str) -> Iterator[str]:
    """What may go wrong in training, the worst first; the last always applies."""
    points = findings.select(rows, method=name, row="checkpoint")
    rank = [float(np.mean(point["rankme"])) for point in points]
    area = [float(np.mean(point["area"])) for point in points]
    probe = [float(np.mean(point["probe_own"])) for point in points]
    trials = findings.select(rows, method=name, row="trial")
    scores = [trial["accuracy"] for trial in trials]
    ranks = f"RankMe {rank[0]:.1f} before training, {rank[-1]:.1f} after it"
    if rank[-1] < COLLAPSED:
        yield f"It collapses: {ranks}."
    if rank[-1] < HALF * rank[0]:
        yield f"Dimensions are lost: {ranks}."
    best = int(np.argmax(area))
    if area[best] - area[-1] > PAST:
        when = f"at step {points[best]['step']}" if best else "before training"
        yield f"The area is {area[best]:.3f} {when} and {area[-1]:.3f} at the end."
    if probe[-1] <= probe[0]:
        yield f"Its own probe does not learn: {probe[0]:.3f} untrained, {probe[-1]:.3f} trained."
    if max(scores) - min(scores) > UNTUNED:
        worst = min(trials, key=lambda trial: float(trial["accuracy"]))
        yield (
            f"It depends on its settings: the probe of the best of {len(scores)} trials has "
            f"{max(scores):.3f}, that with {_settings(worst)} {min(scores):.3f}."
        )
    yield f"No failure was seen: {ranks}, and {len(scores)} trials lie within {UNTUNED:g}."


def _of_r2(rows: Rows, name: str) -> Iterator[str]:
    """What R2 may hide, the most misleading first; the last always applies."""
    r2, area, rank = (mean(rows, name, key) for key in ("r2", "area", "rankme"))
    own, carried = (mean(rows, name, key) for key in ("probe_own", "probe_transferred"))
    beyond, untrained = mean(rows, name, "r2_beyond"), mean(rows, name, "r2", RowName.UNTRAINED)
    if rank < LOW_RANK:
        yield (
            f"R² {r2:.3f} is that of few directions: RankMe {rank:.1f} of {measures.RANKS}, area "
            f"{area:.3f}."
        )
    if gain(rows, name, "r2").low <= 0:
        yield f"R² {r2:.3f} is not that of training: untrained agents have {untrained:.3f}."
    if r2 - beyond > FACTORS:
        yield f"R² {r2:.3f} is that of lighting and elevation: {beyond:.3f} without them."
    if own - carried > CARRIED:
        yield (
            f"R² {r2:.3f} does not carry a probe: {own:.3f} at home, {carried:.3f} from the other "
            "camera."
        )
    directions = mean(rows, name, "dimensions")
    yield (
        f"R² {r2:.3f} is low for its rank: {directions:.1f} of {measures.RANKS} directions are "
        f"shared, RankMe {rank:.1f}."
    )


def _settings(trial: Mapping[str, Any]) -> str:
    """A trial's settings; the learning rate is that over the preset's."""
    names = {"learning_rate": "learning rate ×"}
    settings = {k: v for k, v in trial.items() if k not in ("method", "row", "trial", "accuracy")}
    return ", ".join(f"{names.get(key, key + ' ')}{value:.3g}" for key, value in settings.items())
