"""Ways for a second agent to learn: beside a teacher, beside a partner, or alone.

All methods have the same world, seeds, optimiser, steps and number of tuning trials. Each has one
knob: the weight of what couples it, or the learning rate where nothing does.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.motion import pairs
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.objectives.coupled import (
    Crossed,
    Link,
    Migration,
    Mutual,
    Pull,
    Similarities,
)

OTHER, OWN = 0, 1  # cameras of the teacher or partner, and of the student
STEPS = {"smoke": 8, "cpu": 500, "gpu": 1000, "paper": 1000}
EVALUATIONS = 20
SMALL: dict[str, Any] = {"data__pool": 64, "data__states": 64, "run__batch_size": 16}
WEIGHTS, RATES = (0.1, 1.0, 10.0), (0.5, 1.0, 2.0)  # tuning trials of a weight or of the rate
TUNING = {"data__seed": 1, "data__rho": (0.85,)}  # another world, in which methods are tuned


@dataclass(frozen=True)
class Method:
    """One way to learn.

    Attributes:
        kind: "alone" | "taught" | "crossed" (both cameras, no teacher) | "mutual" | "warm" (from
            the teacher's weights) | "frozen" (the teacher's encoder as it is).
        teacher: "" | "other" | "same" (camera) | "untrained".
        link: what couples it.
        own: factor of its own loss.
        method: of mutual teaching.
        share: of the steps that other methods take.
    """

    kind: str
    teacher: str = ""
    link: Pull = Link()
    own: float = 1.0
    method: str = "both"
    share: float = 1.0

    @property
    def knob(self) -> str:
        """The setting that is tuned."""
        if self.own == 0.0:
            return "learning_rate"
        return {"taught": "beta", "crossed": "beta", "mutual": "gamma"}.get(
            self.kind, "learning_rate"
        )

    @property
    def trials(self) -> tuple[float, ...]:
        """Values of the knob that are tried."""
        return RATES if self.knob == "learning_rate" else WEIGHTS


def _link(kind: str, scale: str) -> Link:
    return Link(kind, memory=64, every=2) if scale == "smoke" else Link(kind, memory=1024, every=10)


def methods(scale: str) -> Mapping[str, Method]:
    """Returns the methods of the table by name."""
    w = _link("closed", scale)
    learned = _link("learned", scale)
    queue = Similarities(queue=32 if scale == "smoke" else 1024)
    return {
        "alone": Method("alone"),
        "alone, half the steps": Method("alone", share=0.5),
        "W": Method("taught", "other", w),
        "W, half the steps": Method("taught", "other", w, share=0.5),
        "W = I": Method("taught", "other", _link("identity", scale)),
        "W random orthogonal": Method("taught", "other", _link("random", scale)),
        "W of shuffled pairs": Method("taught", "other", _link("shuffled", scale)),
        "learned head": Method("taught", "other", learned),
        "learned head, no own loss": Method("taught", "other", learned, own=0.0),
        "similarities": Method("taught", "other", queue),
        "W, teacher untrained": Method("taught", "untrained", w),
        "W, teacher on the same camera": Method("taught", "same", w),
        "pairs without a teacher": Method("crossed"),
        "teacher's weights at first": Method("warm", "other"),
        "teacher's weights, no training": Method("frozen", "other"),
        "mutual, both": Method("mutual", link=w),
        "mutual, alternating": Method("mutual", link=w, method="alternating"),
        "mutual, W = I": Method("mutual", link=_link("identity", scale)),
    }


def experiment(method: Method, scale: str, seeds: tuple[int, ...], **world: object) -> Experiment:
    """Returns the experiment of a method, one student for each seed, on the second camera.

    Args:
        method: the method.
        scale: "smoke" | "cpu" | "gpu" | "paper".
        seeds: of the students; partners have seeds of their own.
        **world: changes of settings, see `pairs.experiment`.
    """
    steps = max(2, round(STEPS[scale] * method.share))
    small = SMALL if scale == "smoke" else {}
    call = max(1, STEPS[scale] // EVALUATIONS)  # shorter runs are looked at as often by the step
    rhythm = pairs.lasting(steps) | {"run__steps_per_call": call}
    base = pairs.experiment(seeds, data__walk=0, **(small | rhythm | world))
    own, others = (OWN,) * len(seeds), (OTHER,) * len(seeds)
    objective: Any = base.objective
    agents = Agents(own, seeds, partners=others)
    if method.kind == "taught":
        objective = Migration(objective, teacher="in memory", link=method.link, own=method.own)
    elif method.kind == "crossed":
        objective = Crossed(objective)
    elif method.kind == "mutual":
        objective = Mutual(objective, method=method.method, link=_as_link(method.link))
        partner_seeds = tuple(seed + 500 for seed in seeds)
        agents = dataclasses.replace(agents, partner_seeds=partner_seeds)
    else:
        agents = Agents(own, seeds)
    return dataclasses.replace(base, objective=objective, agents=agents)


def _as_link(link: Pull) -> Link:
    assert isinstance(link, Link)
    return link
