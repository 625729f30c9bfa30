"""What is measured of trained agents: collapse monitors, alignment, and the controls beside it.

Shape key: A agents, N states, D latent dimensions.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from socialjepa_jax import alignment, collaboration, controls
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.validate import InputError

Row = dict[str, Any]  # one row of alignment.json, see the README
BACKS = ("inverse", "none", "forward", "regression")
_FEWEST_STATES = 4  # below, an evaluation has no meaning


@dataclasses.dataclass(frozen=True)
class Split:
    """Which states a map is fitted on and which it is tested on.

    Attributes:
        name: "instance" (whole objects held out: the headline) | "state".
        train, test: i64 rows.
    """

    name: str
    train: np.ndarray
    test: np.ndarray


def splits(dataset: ViewDataset) -> list[Split]:
    """The splits of a data set that hold something out, the headline first."""
    flags = {"instance": dataset.split_instance, "state": dataset.split_state}
    return [
        Split(name, np.flatnonzero(flag == 0), np.flatnonzero(flag == 1))
        for name, flag in flags.items()
        if flag.any()
    ]


def check_splits(dataset: ViewDataset) -> None:
    """Refuses before training what could not be measured after it.

    Raises:
        InputError: a split leaves too few states.
    """
    for split in splits(dataset):
        for part, rows in (("fit on", split.train), ("test on", split.test)):
            if len(rows) < _FEWEST_STATES:
                raise InputError(
                    f"config.data.splits leaves {len(rows)} states to {part} in the {split.name} "
                    f"split; at least {_FEWEST_STATES} are needed"
                )


def pairs(cameras: tuple[int, ...]) -> Iterator[tuple[int, int, bool]]:
    """All pairs (i, j) with i < j, and whether the two agents look through one camera."""
    for i in range(len(cameras)):
        for j in range(i + 1, len(cameras)):
            yield i, j, cameras[i] == cameras[j]


def fit_map(
    experiment: Experiment, x: np.ndarray, y: np.ndarray, rows: np.ndarray
) -> alignment.LinearMap:
    """The map y ~ W x of two agents' latents, fitted on the given rows as configured."""
    how = experiment.alignment
    return alignment.fit(
        x[rows], y[rows], method=how.method, ridge=how.ridge, kappa_max=how.kappa_max
    )


def monitors(latents_ND: np.ndarray) -> dict[str, float]:
    """How far from collapse latents are.

    Returns:
        feature_std (mean over features of their standard deviation), latent_norm (mean Euclidean
        norm), rankme (Garrido et al., 2023: exp entropy of the normalised singular values; here of
        the centred latents, so that a shared offset does not count as rank).
    """
    return {
        "feature_std": float(latents_ND.std(axis=0).mean()),
        "latent_norm": float(np.linalg.norm(latents_ND, axis=1).mean()),
        "rankme": float(alignment.effective_rank(latents_ND)),
    }


def scalars(
    experiment: Experiment, dataset: ViewDataset, latents_AND: np.ndarray
) -> dict[str, float]:
    """Collapse monitors of every agent and held-out R2 of every pair, by the names in the log."""
    found = {
        f"agent_{k}/{name}": value
        for k, latents_ND in enumerate(latents_AND)
        for name, value in monitors(latents_ND).items()
    }
    for i, j, _ in pairs(experiment.agents.cameras):
        x, y = latents_AND[i], latents_AND[j]
        for split in splits(dataset):
            linear_map = fit_map(experiment, x, y, split.train)
            r2 = alignment.r2(linear_map, x[split.test], y[split.test])
            found[f"pair_{i}_{j}/{split.name}/r2"] = float(r2)
    return found


def best_metric(name: str, found: dict[str, float]) -> float:
    """The one number by which evaluations are compared (`config.Checkpoint.best_metric`).

    Args:
        name: "rankme" (mean over agents) | "r2" (mean over pairs, on the headline split).
        found: from `scalars`, of more than one agent for "r2".
    """
    ends = [key.split("/", 1)[1] for key in found if key.endswith(f"/{name}")]
    return float(np.mean([value for key, value in found.items() if key.endswith(ends[0])]))


@dataclasses.dataclass(frozen=True)
class Untrained:
    """Latents f32[A, N, D] of the same architectures at step 0.

    Attributes:
        own_init: each agent with its own initial parameters.
        same_init: all agents with the first agent's initial parameters.
    """

    own_init: np.ndarray
    same_init: np.ndarray


@dataclasses.dataclass(frozen=True)
class Subject:
    """Two latent spaces to be measured on one split, under the name of their row.

    Attributes:
        row: name in alignment.json.
        split: which states the map is fitted and tested on.
        agents: (i, j), the pair that is measured or controlled for.
        x, y: f32[N, D] each.
    """

    row: str
    split: Split
    agents: tuple[int, int]
    x: np.ndarray
    y: np.ndarray


def subjects(
    experiment: Experiment, dataset: ViewDataset, latents_AND: np.ndarray, untrained: Untrained
) -> Iterator[Subject]:
    """Every pair of agents, on every split, with its controls (see the module `controls`)."""
    dim = latents_AND.shape[-1]
    halves = {split.name: split for split in splits(dataset)}

    @functools.cache  # pairs of agents share cameras
    def pixels(camera: int, name: str) -> np.ndarray:
        return controls.pixel_pca(dataset.images[camera], halves[name].train, dim)

    for i, j, same_camera in pairs(experiment.agents.cameras):
        for split in halves.values():
            x, y = latents_AND[i], latents_AND[j]
            found = {"same_camera": (x, y)}
            if not same_camera:
                found = {
                    "trained": (x, y),
                    "untrained": (untrained.own_init[i], untrained.own_init[j]),
                    "untrained_same_init": (untrained.same_init[i], untrained.same_init[j]),
                    "pixel_pca": (
                        pixels(experiment.agents.cameras[i], split.name),
                        pixels(experiment.agents.cameras[j], split.name),
                    ),
                    **_mismatched(experiment, dataset, split, x, y),
                }
                found |= _partialled(dataset, split, found)
            for row, spaces in found.items():
                yield Subject(row, split, (i, j), *spaces)


# What is left of a row after the shared factors are regressed out of both its spaces.
PARTIALLED = {
    "trained": "partialled",
    "untrained": "untrained_partialled",
    "pixel_pca": "pixel_pca_partialled",
}


def _partialled(
    dataset: ViewDataset, split: Split, found: dict[str, tuple[np.ndarray, np.ndarray]]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))

    def rest(z: np.ndarray) -> np.ndarray:
        return controls.partial_out(z, features, split.train, ridge=1e-6)

    return {name: (rest(found[row][0]), rest(found[row][1])) for row, name in PARTIALLED.items()}


def _mismatched(
    experiment: Experiment, dataset: ViewDataset, split: Split, x: np.ndarray, y: np.ndarray
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The same latents with wrong pairs: row name -> two spaces."""
    rng = np.random.default_rng(experiment.seed)
    names = controls.shared_factor_names(dataset)
    parts = (split.train, split.test)
    anywhere = controls.shuffled_within(np.zeros(len(x), int), parts, rng)
    in_cell = controls.shuffled_within(dataset.cells(names), parts, rng)
    return {
        "mismatched": (x, y[anywhere]),
        "mismatched_cell": (x, y[in_cell]),
    }


def table(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    untrained: Untrained,
    check: Callable[[], None] = lambda: None,
) -> list[Row]:
    """The rows of alignment.json: every subject, measured. `check` is called between them."""
    rows: list[Row] = []
    for subject in subjects(experiment, dataset, latents_AND, untrained):
        check()
        backs = BACKS if subject.row == "trained" else ("inverse",)
        rows += measure(experiment, dataset, subject, backs)
        if subject.row == "partialled":
            y = latents_AND[subject.agents[1]]
            rows.append(_shared_factors_row(experiment, dataset, y, subject))
    return rows


def _shared_factors_row(
    experiment: Experiment, dataset: ViewDataset, y: np.ndarray, subject: Subject
) -> Row:
    """What the shared factors alone explain of the second agent."""
    split = subject.split
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))
    metrics = {
        "r2": explained(y, controls.partial_out(y, features, split.train, ridge=1.0), split.test),
        "n_train": float(len(split.train)),
        "n_test": float(len(split.test)),
    }
    return _row(experiment, subject, "shared_factors", "none", metrics)


def shared_dimensions(
    linear_map: alignment.LinearMap, x: np.ndarray, y: np.ndarray, split: Split
) -> float:
    """How many independent directions of y the map carries over: R2 that low rank cannot inflate.

    Latents of low rank have a high pooled R2 once their few large directions are predicted,
    whatever becomes of the others. Here every principal component of y (of the standardised
    training latents) counts alike: the sum of their held-out R2, each at least 0. It is D for a
    rotation, r for a shared part of rank r, 0 for unrelated spaces.
    """
    y_ND = linear_map.standardize_y(y)
    residual_ND = y_ND - linear_map.forward(linear_map.standardize_x(x), standardized=True)
    _, components_DD = np.linalg.eigh(y_ND[split.train].T @ y_ND[split.train])
    error = np.sum((residual_ND[split.test] @ components_DD) ** 2, axis=0)
    target_ND = y_ND[split.test] @ components_DD
    total = np.sum((target_ND - target_ND.mean(axis=0)) ** 2, axis=0)
    varies = total > 1e-12 * total.max()
    return float(np.sum(np.maximum(0.0, 1.0 - error[varies] / total[varies])))


def explained(y_ND: np.ndarray, residual_ND: np.ndarray, test: np.ndarray) -> float:
    """Pooled R2 on the test rows of a prediction with this residual, in standardised units."""
    scale = y_ND.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    y_ND, residual_ND = y_ND[test] / scale, residual_ND[test] / scale
    return float(1.0 - np.sum(residual_ND**2) / np.sum((y_ND - y_ND.mean(axis=0)) ** 2))


def measure(
    experiment: Experiment, dataset: ViewDataset, subject: Subject, backs: tuple[str, ...]
) -> list[Row]:
    """Fits x -> y and evaluates with each way back; adds probes, RankMe of y and shared dims."""
    x, y, split = subject.x, subject.y, subject.split
    linear_map = fit_map(experiment, x, y, split.train)
    neighbors = tuple(k for k in experiment.alignment.neighbors if k < len(split.test))
    shared = {
        **probe_accuracies(experiment, dataset, subject, linear_map),
        "rankme": monitors(y[split.test])["rankme"],
        "shared_dims": shared_dimensions(linear_map, x, y, split),
    }
    rows = []
    for back in backs:
        metrics = alignment.evaluate(
            linear_map, x[split.test], y[split.test], back=back, neighbors=neighbors
        )
        rows.append(_row(experiment, subject, subject.row, back, {**metrics, **shared}))
    return rows


def _row(
    experiment: Experiment, subject: Subject, row: str, back: str, metrics: dict[str, float]
) -> Row:
    """One row of alignment.json."""
    return {
        "x": f"agent_{subject.agents[0]}",
        "y": f"agent_{subject.agents[1]}",
        "row": row,
        "split": subject.split.name,
        "method": experiment.alignment.method,
        "back": back,
        "seed": experiment.seed,
        "metrics": metrics,
    }


def probe_accuracies(
    experiment: Experiment,
    dataset: ViewDataset,
    subject: Subject,
    linear_map: alignment.LinearMap,
) -> dict[str, float]:
    """Accuracy on held-out y of its own probe and of x's: by W^-1, by regression, as it is."""
    train, test, labels = subject.split.train, subject.split.test, dataset.labels
    x, y, ridge = subject.x, subject.y, experiment.alignment.probe_ridge

    def probe_of(z: np.ndarray) -> collaboration.Probe:
        classes = len(dataset.label_names)
        return collaboration.fit_probe(z[train], labels[train], classes, ridge=ridge)

    source = probe_of(x)
    probes = {
        "probe_own": probe_of(y),
        "probe_transferred": collaboration.transfer_probe(source, linear_map),
        "probe_regression": collaboration.transfer_probe(source, linear_map, kind="regression"),
    }
    if x.shape[1] == y.shape[1]:
        probes["probe_raw"] = source
    return {
        name: float(collaboration.accuracy(probe, y[test], labels[test]))
        for name, probe in probes.items()
    }


def save_latents(workdir: pathlib.Path, dataset: ViewDataset, latents_AND: np.ndarray) -> None:
    """Writes latents/agent_<k>.npz: latents beside the states' ids, labels and factors."""
    folder = workdir / "latents"
    folder.mkdir(exist_ok=True)
    for k, latents_ND in enumerate(latents_AND):
        np.savez(
            folder / f"agent_{k}.npz",
            latents=latents_ND.astype(np.float32),
            state_ids=dataset.state_ids,
            instance_ids=dataset.instance_ids,
            labels=dataset.labels,
            factors=dataset.factors,
            factor_names=np.array(dataset.factor_names),
            split_state=dataset.split_state,
            split_instance=dataset.split_instance,
        )
