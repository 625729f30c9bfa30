"""Labels of training states, and the teachers' heads, for objectives that read classes.

No label of a held-out object is in either: its place holds -1, which no loss can use.

Shape key: A agents, N states, E features of the teacher, C classes.
"""

import dataclasses
from typing import Any

import numpy as np

from socialjepa_jax import build, sharding
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.objectives.coupled import Classes, Migration, MutualClasses, Taught

HIDDEN = -1


@one_blas_thread()
def given(
    parts: build.Parts, chosen: Experiment, dataset: ViewDataset, teacher: Encoders | None
) -> build.Parts:
    """Returns the parts of a run with what its objective reads of labels, in its hparams.

    They are the same bits for every number of cores and threads.

    Args:
        parts: of the run.
        chosen: its experiment.
        dataset: its data.
        teacher: of a migration.

    Raises:
        InputError: training states have another number of classes than the objective.
    """
    count = num_classes(chosen.objective)
    if not count:
        return parts
    by_agent = sharding.by_agent(parts.trainer.mesh)
    labels_N = training_labels(chosen, dataset, count)
    labels_AN = np.tile(labels_N, (len(chosen.agents.seeds), 1))
    hparams = {**parts.hparams, "labels": sharding.put(labels_AN, by_agent)}
    objective = parts.trainer.objective
    if teacher is not None and isinstance(objective, Taught) and objective.has_teacher:
        heads = teacher_heads(chosen, dataset, teacher, labels_N, count)
        hparams["teacher"] = {**hparams["teacher"], "head": sharding.put(heads, by_agent)}
    return dataclasses.replace(parts, hparams=hparams)


def num_classes(objective: Any) -> int:
    """Returns C of an objective with classes, 0 for others."""
    if isinstance(objective, MutualClasses):
        return objective.num_classes
    link = objective.link if isinstance(objective, Migration) else None
    return link.num_classes if isinstance(link, Classes) else 0


def training_labels(chosen: Experiment, dataset: ViewDataset, count: int) -> np.ndarray:
    """Returns the class of every training state, numbered from 0, and `HIDDEN` elsewhere: i32[N].

    Raises:
        InputError: training states have another number of classes.
    """
    rows = build.train_rows(chosen, dataset)
    names, classes = np.unique(dataset.labels[rows], return_inverse=True)
    if len(names) != count:
        raise InputError(f"num_classes={count}, the training states have {len(names)}")
    labels_N = np.full(dataset.num_states, HIDDEN, np.int32)
    labels_N[rows] = classes
    return labels_N


def teacher_heads(
    chosen: Experiment, dataset: ViewDataset, teacher: Encoders, labels_N: np.ndarray, count: int
) -> dict[str, np.ndarray]:
    """Fits the head of each student's teacher to its latents of whole images of training states.

    Returns:
        'kernel' f32[A, E, C] and 'bias' f32[A, C].
    """
    rows, fitted = np.flatnonzero(labels_N != HIDDEN), {}
    pairs = list(zip(build.teaching(chosen, teacher), chosen.agents.partners))
    for agent, camera in set(pairs):
        z = teacher.encode(agent, np.asarray(dataset.images[camera][rows]))
        fitted[agent, camera] = fit_logistic(z, labels_N[rows], count)
    probes = [fitted[pair] for pair in pairs]
    heads = {"kernel": [p.weight for p in probes], "bias": [p.bias for p in probes]}
    return {name: np.stack(of).astype(np.float32) for name, of in heads.items()}
