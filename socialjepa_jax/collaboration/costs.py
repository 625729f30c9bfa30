"""Costs of learning beside another model, counted in its own program, and what they bought.

FLOPs are those of products, two for each multiply-add (`performance.flops`). The cost of an update
of a coupled run is that of one jaxpr: the models' own losses and gradients, the latents of the term
that couples them, and the teacher's forward pass.

Shape key: T evaluations of a run, R runs (seeds).
"""

from dataclasses import dataclass

import jax
import numpy as np

from socialjepa_jax.errors import InputError, as_array, check_in_range, check_positive
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.coupled import (
    Classes,
    Crossed,
    Link,
    Mutual,
    MutualClasses,
    Pull,
    Taught,
)
from socialjepa_jax.objectives.coupled.members import image_of, width_of
from socialjepa_jax.performance import flops


@dataclass(frozen=True)
class StepCost:
    """Cost of one update of one agent.

    Attributes:
        own: FLOPs of the models' own updates.
        teacher: FLOPs of the teacher's forward pass, with its head; 0 without a teacher.
        coupling: FLOPs of the rest: latents of the term, their gradient, products of the map.
        solves: FLOPs of refitting W both ways by Cholesky factors, over the steps between refits.
        exchanged: bytes of latents or logits that one model sends to the other, float32.
    """

    own: float
    teacher: float
    coupling: float
    solves: float
    exchanged: int

    @property
    def total(self) -> float:
        """FLOPs of the update."""
        return self.own + self.teacher + self.coupling + self.solves


def of_step(objective: Objective, batch_size: int) -> StepCost:
    """Counts an update.

    Args:
        objective: of a single model, `Crossed`, `Mutual`, `MutualClasses`, or a `Migration` bound
            to its teacher.
        batch_size: pairs of an update.
    """
    total = flops.step(objective, batch_size)
    if isinstance(objective, Mutual):
        own = 2 * flops.step(objective.objective, batch_size)
        width = width_of(objective.objective)
        solves = _solves(objective.link, width, width)
        return StepCost(own, 0.0, total - own, solves, 4 * 2 * batch_size * width)
    if isinstance(objective, MutualClasses):
        own = 2 * flops.step(objective.objective, batch_size)
        exchanged = 4 * 2 * batch_size * objective.num_classes
        return StepCost(own, 0.0, total - own, 0.0, exchanged)
    if isinstance(objective, Taught):
        own = flops.step(objective.objective, batch_size)
        teacher, sent = _taught(objective, batch_size)
        width, wide = width_of(objective.objective), width_of(objective.taught_by)
        solves = _solves(objective.link, width, wide)
        return StepCost(own, teacher, total - own - teacher, solves, 4 * batch_size * sent)
    if isinstance(objective, Crossed):
        own = flops.step(objective.objective, batch_size)
        return StepCost(own, 0.0, total - own, 0.0, 0)
    return StepCost(total, 0.0, 0.0, 0.0, 0)


def _taught(objective: Taught, batch_size: int) -> tuple[float, int]:
    """Returns the FLOPs of a teacher's forward pass, and the numbers that it sends of an image."""
    if not objective.has_teacher:
        return 0.0, 0
    width, encoded = width_of(objective.taught_by), forward(objective.taught_by, batch_size)
    if not isinstance(link := objective.link, Classes):
        return encoded, width
    return encoded + 2.0 * batch_size * width * link.num_classes, link.num_classes


def _solves(link: Pull, x: int, y: int) -> float:
    """FLOPs a step of both regressions between x and y features: n^3 / 3 + 2 n^2 m each."""
    if not (isinstance(link, Link) and link.is_fitted):
        return 0.0
    return sum(n**3 / 3 + 2 * n**2 * m for n, m in ((x, y), (y, x))) / link.every


def forward(objective: Objective, batch_size: int) -> float:
    """Returns the FLOPs of encoding images."""
    state = jax.eval_shape(objective.init, jax.random.key(0))
    images = jax.ShapeDtypeStruct((batch_size, *image_of(objective)), np.float32)
    return flops.of(lambda x, state: objective.encode(state[0], state[1], x), images, state)


def crossing(costs_T: np.ndarray, scores_T: np.ndarray, threshold: float) -> float:
    """Returns the cost at which a run's score reaches a threshold; inf if it never does.

    The score is replaced by its best increasing fit (isotonic regression) and interpolated: the
    first passage of a noisy curve comes early, and the more so the more often it is looked at.

    Args:
        costs_T: cumulative cost at each evaluation, increasing.
        scores_T: score at each evaluation.
        threshold: of the score.

    Raises:
        InputError: the arrays do not fit, or costs do not increase.
    """
    from scipy import optimize  # slow to import, and no training run needs it

    costs = as_array(costs_T, "costs", np.float64)
    scores = as_array(scores_T, "scores", np.float64)
    if costs.ndim != 1 or costs.shape != scores.shape or not len(costs):
        raise InputError(f"costs {costs.shape} and scores {scores.shape} must be one curve")
    if not (np.diff(costs) > 0).all():
        raise InputError("costs must increase from one evaluation to the next")
    fitted = optimize.isotonic_regression(scores).x
    above = np.flatnonzero(fitted >= threshold)
    if not len(above):
        return float("inf")
    k = above[0]
    if k == 0:
        return float(costs[0])
    share = (threshold - fitted[k - 1]) / (fitted[k] - fitted[k - 1])
    return float(costs[k - 1] + share * (costs[k] - costs[k - 1]))


@dataclass(frozen=True)
class Spent:
    """Mean cost of reaching a threshold within a limit.

    Attributes:
        mean: restricted mean: runs that never reach it count with the limit.
        low, high: 95 % bootstrap interval over runs.
        reached: share of runs that reached it.
    """

    mean: float
    low: float
    high: float
    reached: float


def restricted_mean(
    crossings_R: np.ndarray, limit: float, draws: int = 10_000, seed: int = 0
) -> Spent:
    """Returns the mean cost of runs, those that never arrive censored at the limit.

    Args:
        crossings_R: of `crossing`, inf where a run did not arrive.
        limit: cost of a whole run.
        draws: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: there is no run, or a cost is not a number.
    """
    check_positive(limit=limit, draws=draws)
    crossings = as_array(crossings_R, "crossings", np.float64)
    if crossings.ndim != 1 or not len(crossings) or np.isnan(crossings).any():
        raise InputError(f"crossings must be costs of one or more runs, got {crossings}")
    return relative(crossings, np.ones_like(crossings), (limit, 1.0), draws, seed)


def relative(
    crossings_R: np.ndarray,
    baseline_R: np.ndarray,
    limits: tuple[float, float],
    draws: int = 10_000,
    seed: int = 0,
) -> Spent:
    """Returns the ratio of two restricted means, whose interval resamples seeds of both at once.

    Args:
        crossings_R, baseline_R: of `crossing`, run k of both with the same seed.
        limits: cost of a whole run of either.
        draws: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: there are not as many runs of both.
    """
    crossings, baseline = (as_array(c, "crossings", np.float64) for c in (crossings_R, baseline_R))
    if crossings.shape != baseline.shape or crossings.ndim != 1 or not len(crossings):
        raise InputError(f"crossings {crossings.shape} and {baseline.shape} must be runs in pairs")
    ours, theirs = np.minimum(crossings, limits[0]), np.minimum(baseline, limits[1])
    rows = np.random.default_rng(seed).integers(len(ours), size=(draws, len(ours)))
    ratios = ours[rows].mean(1) / theirs[rows].mean(1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    reached = float((crossings <= limits[0]).mean())
    return Spent(float(ours.mean() / theirs.mean()), float(low), float(high), reached)


def threshold_of(final_scores_R: np.ndarray, share: float = 0.95) -> float:
    """Returns the score that counts as arrived: a share of the scratch runs' mean final score."""
    check_in_range(0.0, 1.0, share=share)
    return float(share * np.mean(as_array(final_scores_R, "final_scores", np.float64)))
