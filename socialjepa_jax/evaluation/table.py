"""The rows of alignment.json: every pair of agents, measured beside its controls.

Shape key: A agents, N states, D latent dimensions.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from socialjepa_jax import alignment, collaboration
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.config import Alignment, Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation import controls, shift
from socialjepa_jax.evaluation.latents import Untrained
from socialjepa_jax.evaluation.metrics import collapse_metrics, fit_map
from socialjepa_jax.evaluation.splits import Split, pairs, splits
from socialjepa_jax.records import PARTIALLED, RowName

Row = dict[str, Any]  # one row of alignment.json
BACKS = ("inverse", "none", "forward", "regression")


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
    cameras: tuple[int, ...],
    seed: int,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    untrained: Untrained,
) -> Iterator[Subject]:
    """Yields every pair of agents, on every split, with its controls (see `controls`).

    Rows about the shared factors are left out where no such factor varies.

    Args:
        cameras: the camera of each agent.
        seed: of the shuffled pairs.
        dataset, latents_AND, untrained: of the run.
    """
    dim = latents_AND.shape[-1]
    halves = {split.name: split for split in splits(dataset)}

    @functools.cache  # pairs of agents share cameras
    def pixels(camera: int, name: str) -> np.ndarray:
        return controls.pixel_pca(dataset.images[camera], halves[name].train, dim)

    for i, j, same_camera in pairs(cameras):
        for split in halves.values():
            x, y = latents_AND[i], latents_AND[j]
            found = {RowName.SAME_CAMERA: (x, y)}
            if not same_camera:
                found = {
                    RowName.TRAINED: (x, y),
                    RowName.UNTRAINED: (untrained.own_init[i], untrained.own_init[j]),
                    RowName.UNTRAINED_SAME_INIT: (untrained.same_init[i], untrained.same_init[j]),
                    RowName.PIXEL_PCA: (
                        pixels(cameras[i], split.name),
                        pixels(cameras[j], split.name),
                    ),
                    **_mismatched(seed, dataset, split, x, y),
                }
                if controls.shares_factors(dataset):
                    found |= _partialled(dataset, split, found)
            for row, spaces in found.items():
                yield Subject(row, split, (i, j), *spaces)


def _partialled(
    dataset: ViewDataset, split: Split, found: dict[RowName, tuple[np.ndarray, np.ndarray]]
) -> dict[RowName, tuple[np.ndarray, np.ndarray]]:
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))

    def rest(z: np.ndarray) -> np.ndarray:
        return controls.partial_out(z, features, split.train, ridge=1e-6)

    return {name: (rest(found[row][0]), rest(found[row][1])) for row, name in PARTIALLED.items()}


def _mismatched(
    seed: int, dataset: ViewDataset, split: Split, x: np.ndarray, y: np.ndarray
) -> dict[RowName, tuple[np.ndarray, np.ndarray]]:
    """The same latents with wrong pairs: row name -> two spaces."""
    rng, parts = np.random.default_rng(seed), (split.train, split.test)
    anywhere = controls.shuffled_within(np.zeros(len(x), int), parts, rng)
    found = {RowName.MISMATCHED: (x, y[anywhere])}
    if controls.shares_factors(dataset):
        cells = dataset.cells(controls.shared_factor_names(dataset))
        in_cell = controls.shuffled_within(cells, parts, rng)
        found[RowName.MISMATCHED_CELL] = (x, y[in_cell])
    return found


@one_blas_thread()
def alignment_rows(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    untrained: Untrained,
    check: Callable[[], None] = lambda: None,
) -> list[Row]:
    """The rows of alignment.json: every subject, measured. `check` is called between them.

    They are the same bits for every number of cores and threads.
    """
    rows: list[Row] = []
    headline = splits(dataset)[0]
    for subject in subjects(
        experiment.agents.cameras, experiment.seed, dataset, latents_AND, untrained
    ):
        check()
        backs = BACKS if subject.row == RowName.TRAINED else ("inverse",)
        rows += measure(experiment.alignment, dataset, subject, backs)
        if dataset.domain and subject.row in shift.ROWS and subject.split.name == headline.name:
            spaces = subject.x, subject.y
            shifted = shift.table5_shift(experiment.alignment, dataset, headline, *spaces)
            for name, metrics in shifted.items():
                row = _row(experiment.alignment, subject, subject.row, "inverse", metrics)
                rows.append({**row, "split": name})
        if subject.row == RowName.PARTIALLED:
            y = latents_AND[subject.agents[1]]
            rows.append(_shared_factors_row(experiment.alignment, dataset, y, subject))
    return [{**row, "seed": experiment.seed} for row in rows]


def _shared_factors_row(
    how: Alignment, dataset: ViewDataset, y: np.ndarray, subject: Subject
) -> Row:
    """R2 of a prediction of the second agent from the shared factors alone."""
    split = subject.split
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))
    predicted = y - controls.partial_out(y, features, split.train, ridge=1.0)
    scale = y[split.train].std(axis=0, dtype=np.float64)
    scale = np.where(scale > 0, scale, 1.0)
    metrics = {
        "r2": alignment.prediction_r2(predicted[split.test], y[split.test], scale),
        "n_train": float(len(split.train)),
        "n_test": float(len(split.test)),
    }
    return _row(how, subject, RowName.SHARED_FACTORS, "none", metrics)


def measure(
    how: Alignment, dataset: ViewDataset, subject: Subject, backs: tuple[str, ...]
) -> list[Row]:
    """Fits x -> y and evaluates with each way back; adds probes, RankMe of y and shared dims."""
    x, y, split = subject.x, subject.y, subject.split
    linear_map = fit_map(how, x, y, split.train)
    neighbors = tuple(k for k in how.neighbors if k < len(split.test))
    shared = {
        **probe_accuracies(how, dataset, subject, linear_map),
        "rankme": collapse_metrics(y[split.test])["rankme"],
        "shared_dims": alignment.shared_dimensions(
            linear_map, y[split.train], x[split.test], y[split.test]
        ),
    }
    rows = []
    for back in backs:
        metrics = alignment.evaluate(
            linear_map, x[split.test], y[split.test], back=back, neighbors=neighbors
        )
        rows.append(_row(how, subject, subject.row, back, {**metrics, **shared}))
    return rows


def _row(how: Alignment, subject: Subject, row: str, back: str, metrics: dict[str, float]) -> Row:
    """One row of alignment.json."""
    return {
        "x": f"agent_{subject.agents[0]}",
        "y": f"agent_{subject.agents[1]}",
        "row": row,
        "split": subject.split.name,
        "method": how.method,
        "back": back,
        "metrics": metrics,
    }


def probe_accuracies(
    how: Alignment,
    dataset: ViewDataset,
    subject: Subject,
    linear_map: alignment.LinearMap,
) -> dict[str, float]:
    """Accuracy on held-out y of its own probe and of x's: by W^-1, by regression, as it is.

    Nothing where all states are of one category.
    """
    if not np.ptp(dataset.labels):
        return {}
    train, test, labels = subject.split.train, subject.split.test, dataset.labels
    x, y, ridge = subject.x, subject.y, how.probe_ridge

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
