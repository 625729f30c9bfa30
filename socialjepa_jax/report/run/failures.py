"""Signs of failure in the training metrics of an objective, with what helped others.

A sign is judged on the last line of metrics. ln K is the loss of a uniform answer over K outputs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from socialjepa_jax.report import html
from socialjepa_jax.report.run.data import RunData

NEAR = 0.05  # share of a level within which a metric counts as being there
ONE_OUTPUT = 1.5  # `outputs_used` below it: the same output for almost all images

Metrics = Mapping[str, float]
Settings = Mapping[str, Any]  # of the objective


@dataclass(frozen=True)
class Sign:
    """A failure that metrics show.

    Attributes:
        kinds: of the objectives that have it.
        seen: judges (metrics, settings); a missing metric is NaN and shows nothing.
        meaning: what has happened.
        remedy: what users changed.
    """

    kinds: tuple[str, ...]
    seen: Callable[[Metrics, Settings], bool]
    meaning: str
    remedy: str


def _at_chance(metrics: Metrics, settings: Settings) -> bool:
    return metrics["loss"] >= (1 - NEAR) * metrics["chance"]


def _uniform(metric: str, outputs: str) -> Callable[[Metrics, Settings], bool]:
    return lambda metrics, settings: metrics[metric] >= (1 - NEAR) * math.log(settings[outputs])


def _one_output(metrics: Metrics, settings: Settings) -> bool:
    return metrics["outputs_used"] <= ONE_OUTPUT


_DISTILLED = ("dino", "ibot", "dinov2")
SIGNS = (
    Sign(
        ("simclr",),
        _at_chance,
        "the loss is that of picking among all views at random, ln(2 N - 1)",
        "lower the temperature for small batches; scale the rate by the root of the batch",
    ),
    Sign(
        ("moco",),
        _at_chance,
        "the loss is that of picking among all images at random, 4 tau ln N",
        "smaller rate; the patch embedding stays frozen, as is the default for ViTs",
    ),
    Sign(
        ("swav",),
        _uniform("loss", "prototypes"),
        "the loss is ln K: all prototypes are alike",
        "`eps` .03; fewer prototypes; start the queue later",
    ),
    Sign(
        ("swav",),
        _one_output,
        "one prototype is chosen for almost all images",
        "more rounds of Sinkhorn; keep the prototypes frozen longer",
    ),
    Sign(
        _DISTILLED,
        _uniform("target_entropy", "outputs"),
        "the teacher's answer is uniform, the entropy of its outputs is ln K",
        "lower the teacher's temperature, fewer outputs, smaller rate",
    ),
    Sign(
        _DISTILLED,
        _one_output,
        "the teacher has one answer for almost all images",
        "slower centre and teacher; temperature below .07",
    ),
    Sign(
        ("barlow",),
        lambda metrics, settings: metrics["invariance"] >= (1 - NEAR) * settings["projector_dim"],
        "features of the two views do not correlate: `invariance` is the number of features",
        "smaller rate; off-diagonal weight about 1 / features",
    ),
    Sign(
        ("autoencoder",),
        lambda metrics, settings: metrics["explained"] <= NEAR,
        "the reconstruction is the mean image",
        "longer warm-up; the latent must reach the decoder",
    ),
)


class _Named(dict[str, float]):
    """Metrics of an agent; those that are not logged are NaN."""

    def __missing__(self, key: str) -> float:
        return math.nan


def found(run: RunData) -> dict[Sign, list[int]]:
    """Returns the signs that the last training metrics show, and the agents that show them."""
    settings = run.config.get("objective")
    if not run.train or not isinstance(settings, dict):
        return {}
    metrics = {agent: _metrics(run.train[-1], agent) for agent in run.agents}
    shown = {
        sign: [agent for agent, own in metrics.items() if sign.seen(own, settings)]
        for sign in SIGNS
        if settings.get("kind") in sign.kinds
    }
    return {sign: agents for sign, agents in shown.items() if agents}


def _metrics(line: Mapping[str, Any], agent: int) -> Metrics:
    start = f"agent_{agent}/"
    numbers = {k: v for k, v in line.items() if isinstance(v, int | float)}
    return _Named({k.removeprefix(start): v for k, v in numbers.items() if k.startswith(start)})


def sentences(run: RunData) -> html.Html:
    """A warning for each sign of failure; nothing without any."""
    lines = []
    for sign, agents in found(run).items():
        who = f"agent {agents[0]}" if len(agents) == 1 else f"agents {', '.join(map(str, agents))}"
        text = f"{who.capitalize()}: {sign.meaning}. What helped others: {sign.remedy}."
        lines.append(html.paragraph(text.replace("`", ""), class_="warning"))
    return html.join(*lines)
