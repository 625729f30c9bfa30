"""Ways for a second agent to learn: beside a teacher, beside a partner, or alone.

All methods have the same world, seeds, optimiser, steps and number of tuning trials. Each has one
knob: the weight of what couples it, or the learning rate where nothing does.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.collaboration.scenes import Scene
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.coupled import (
    Classes,
    Crossed,
    Link,
    Migration,
    Mutual,
    MutualClasses,
    Pull,
    Similarities,
)

OTHER, OWN = 0, 1  # cameras of the teacher or partner, and of the student
WEIGHTS, RATES = (0.1, 1.0, 10.0), (0.5, 1.0, 2.0)  # tuning trials of a weight or of the rate


@dataclass(frozen=True)
class Method:
    """One way to learn.

    Attributes:
        kind: "alone" | "taught" | "crossed" (both cameras, no teacher) | "mutual" | "warm" (from
            the teacher's weights) | "frozen" (the teacher's encoder as it is).
        teacher: "" | "other" | "same" (camera) | "untrained".
        link: what couples it; of mutual teaching by `Classes` its number of classes alone.
        own: factor of its own loss.
        method: of mutual teaching.
        share: of the steps that other methods take.
        whole: True: the teacher sees whole images instead of crops.
    """

    kind: str
    teacher: str = ""
    link: Pull = Link()
    own: float = 1.0
    method: str = "both"
    share: float = 1.0
    whole: bool = False

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


def methods(scene: Scene, scale: str) -> Mapping[str, Method]:
    """Returns the methods of the table by name."""
    memory, every = (scene.memory[0], 2) if scale == "smoke" else (scene.memory[1], 10)
    w, identity, random, shuffled, learned = (
        Link(kind, memory, every)
        for kind in ("closed", "identity", "random", "shuffled", "learned")
    )
    queue = Similarities(queue=32 if scale == "smoke" else 1024)
    found = {
        "alone": Method("alone"),
        "alone, half the steps": Method("alone", share=0.5),
        "W": Method("taught", "other", w),
        "W, half the steps": Method("taught", "other", w, share=0.5),
        "W = I": Method("taught", "other", identity),
        "W random orthogonal": Method("taught", "other", random),
        "W of shuffled pairs": Method("taught", "other", shuffled),
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
        "mutual, W = I": Method("mutual", link=identity),
    }
    if scene.crops:
        found["W, latents kept"] = Method("taught", "other", w, whole=True)
    return found | (_with_labels(scene.classes) if scene.classes else {})


def _with_labels(count: int) -> dict[str, Method]:
    """Returns the methods that read labels of training states; their knob weighs all of a term."""
    both, hard = Classes(num_classes=count), Classes(num_classes=count, soft=0.0)
    return {
        "distillation, labels": Method("taught", "other", both),
        "distillation, labels, no own loss": Method("taught", "other", both, own=0.0),
        "labels without a teacher": Method("taught", "other", hard),
        "mutual learning, labels": Method("mutual", link=both),
    }


def experiment(
    method: Method, scene: Scene, scale: str, seeds: tuple[int, ...], **world: object
) -> Experiment:
    """Returns the experiment of a method, one student for each seed, on the second camera.

    Args:
        method: the method.
        scene: the world.
        scale: "smoke" | "cpu" | "gpu" | "paper".
        seeds: of the students; partners have seeds of their own.
        **world: changes of settings, see `pairs.experiment`.
    """
    base = scene.run(scale, seeds, method.share, **world)
    own = (OWN,) * len(seeds)
    others = own if method.teacher == "same" else (OTHER,) * len(seeds)  # what the teacher sees
    objective: Any = base.objective
    agents = Agents(own, seeds, partners=others)
    if method.kind == "taught":
        objective = Migration(objective, teacher="in memory", link=method.link, own=method.own)
    elif method.kind == "crossed":
        objective = Crossed(objective)
    elif method.kind == "mutual":
        objective = _mutual(objective, method)
        partner_seeds = tuple(seed + 500 for seed in seeds)
        agents = dataclasses.replace(agents, partner_seeds=partner_seeds)
    else:
        agents = Agents(own, seeds)
    return dataclasses.replace(base, objective=objective, agents=agents)


def _mutual(objective: Objective, method: Method) -> Mutual | MutualClasses:
    if isinstance(method.link, Classes):
        return MutualClasses(objective, num_classes=method.link.num_classes)
    assert isinstance(method.link, Link)
    return Mutual(objective, method=method.method, link=method.link)
