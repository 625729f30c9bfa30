"""Measurements of the honest table: every pair of agents of a run beside its controls.

Shape key: A agents, N states, D latent dimensions.
"""

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.alignability import jackknife
from experiments.alignability.jackknife import Estimate
from socialjepa_jax import build, evaluation, loop
from socialjepa_jax.config import Alignment, Experiment
from socialjepa_jax.data.base import ViewDataset

LATENTS = {
    "ijepa": {
        "context/cls": "CLS of the trained encoder",
        "target/cls": "CLS of its moving average",
    },
    "lejepa": {"cls": "CLS of the encoder"},
}
"""Objective's kind -> its latents and their headings."""


@dataclass(frozen=True)
class Measured:
    """One row of the table on one split.

    Attributes:
        metrics: estimates by the names in `jackknife.METRICS`.
        probes: accuracies.
        pairs: the agents (i, j) over which both are averaged.
    """

    metrics: dict[str, Estimate]
    probes: dict[str, float]
    pairs: tuple[tuple[int, int], ...]


Rows = dict[tuple[str, str], Measured]  # (row, split) -> its measurements


def run(experiment: Experiment, workdir: pathlib.Path) -> dict[str, Rows]:
    """Trains (or reads) one run and measures all pairs of agents and their controls.

    Returns:
        Latent -> rows, averaged over pairs.
    """
    result = loop.fit(experiment, workdir)
    parts = build.build(experiment)
    feed = build.open_feed(experiment, result.dataset, parts, workdir, workdir)
    everything = evaluation.encode_states(parts.trainer.encode_all, result.state, feed)
    # At step 0 the moving average is the encoder itself, so both have the same untrained controls.
    return {
        name: measure(experiment, result.dataset, everything[name], result.untrained)
        for name in LATENTS[experiment.objective.kind]
    }


def measure(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    untrained: evaluation.Untrained,
) -> Rows:
    """Rows of one run, averaged over the pairs of agents that have the row."""
    pairs: dict[tuple[str, str], list[Measured]] = {}
    for subject in evaluation.subjects(
        experiment.agents.cameras, experiment.seed, dataset, latents_AND, untrained
    ):
        pair = of_subject(experiment.alignment, dataset, subject)
        pairs.setdefault((subject.row, subject.split.name), []).append(pair)
    return {key: _mean(parts, Estimate.of_pairs) for key, parts in pairs.items()}


def of_subject(
    how: Alignment,
    dataset: ViewDataset,
    subject: evaluation.Subject,
    names: Sequence[str] = jackknife.METRICS,
) -> Measured:
    """Fits the map of two spaces and measures it, with probes.

    Args:
        how: the map is fitted.
        dataset: of the latents.
        subject: the two spaces and their split.
        names: of the metrics.
    """
    x, y, split = subject.x, subject.y, subject.split
    linear_map = evaluation.fit_map(how, x, y, split.train)
    metrics = jackknife.estimates(linear_map, x, y, split, dataset.instance_ids, names)
    probes = evaluation.probe_accuracies(how, dataset, subject, linear_map)
    return Measured(metrics, probes, (subject.agents,))


def average(runs: list[Rows]) -> Rows:
    """Mean over repetitions, which share their test objects."""
    return {key: _mean([rows[key] for rows in runs], Estimate.mean) for key in runs[0]}


def _mean(parts: list[Measured], mean: Callable[[list[Estimate]], Estimate]) -> Measured:
    first = parts[0]
    return Measured(
        {name: mean([part.metrics[name] for part in parts]) for name in first.metrics},
        {name: float(np.mean([part.probes[name] for part in parts])) for name in first.probes},
        tuple(dict.fromkeys(pair for part in parts for pair in part.pairs)),
    )
