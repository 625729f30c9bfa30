"""The rows of alignment.json of a world whose states are known and continuous.

Beside every map stands what the map cannot say: how much of the state each of its two spaces holds
(`state_r2`). Two agents that lost the same latent can agree perfectly.

Shape key: N states, D and E latent dimensions, L state dimensions.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation import controls, theory
from socialjepa_jax.evaluation.cycles import cycle_rows
from socialjepa_jax.evaluation.evidence import Encoded
from socialjepa_jax.evaluation.metrics import collapse_metrics
from socialjepa_jax.evaluation.readouts import (
    DRAWS,
    carried,
    own_readouts,
    r2_of_states,
    readout_r2,
)
from socialjepa_jax.evaluation.splits import Split, pairs, splits
from socialjepa_jax.evaluation.table import BACKS, Row
from socialjepa_jax.records import RowName

FEW_PAIRS = 5


@dataclasses.dataclass(frozen=True, eq=False)
class _Subject:
    """Two spaces f32[N, D], [N, E] under the name of their row, and the map between them."""

    row: str
    x: np.ndarray
    y: np.ndarray
    linear_map: alignment.LinearMap
    backs: tuple[str, ...] = ("inverse",)


class Pixels:
    """Spaces and readouts that are linear in the pixels of a camera; computed once for each."""

    def __init__(self, dataset: ViewDataset) -> None:
        """Takes the images and states of a data set; they are read when a camera is asked for."""
        assert dataset.states is not None
        self.split, self._dataset, self._states = splits(dataset)[0], dataset, dataset.states
        self.pca = functools.cache(self._pca)
        self.projection = functools.cache(self._projection)
        self.readout = functools.cache(self._readout)

    def _pca(self, camera: int, width: int) -> np.ndarray:
        return controls.pixel_pca(self._dataset.images[camera], self.split.train, width)

    def _projection(self, camera: int, width: int) -> np.ndarray:
        return controls.random_projection(self._dataset.images[camera], width, camera)

    def _readout(self, camera: int) -> np.ndarray:
        """R2 of each state from all pixels, f64[L]: what labels can reach."""
        images, split = self._dataset.images[camera], self.split
        predicted = controls.pixel_readout(images, self._states, split.train, split.test)
        return r2_of_states(predicted, self._states[split.test])


@one_blas_thread()
def alignment_rows(encoded: Encoded, check: Callable[[], None] = lambda: None) -> list[Row]:
    """Returns the rows of alignment.json: every pair of agents, with its controls, and triples.

    They are the same bits for every number of cores and threads.

    Args:
        encoded: the agents of a run.
        check: called between subjects.
    """
    rows: list[Row] = []
    pixels = Pixels(encoded.dataset)
    for i, j, _ in pairs(encoded.experiment.agents.cameras):
        rows += pair_rows(encoded, (i, j), check, pixels=pixels)
    return rows + cycle_rows(encoded, check)


def pair_rows(
    encoded: Encoded,
    agents: tuple[int, int],
    check: Callable[[], None] = lambda: None,
    *,
    pixels: Pixels | None,
    controls: bool = True,
) -> list[Row]:
    """Returns the rows of one pair of agents; two on one camera are a ceiling, without controls.

    Args:
        encoded: the agents of a run.
        agents: (i, j).
        check: called between subjects.
        pixels: of the data set, for the controls that depend on the cameras alone; None: leaves
            them out.
        controls: False: the trained agents alone.
    """
    split, cameras = encoded.split, [encoded.experiment.agents.cameras[k] for k in agents]
    apart = cameras[0] != cameras[1]
    spaces = [_trained(encoded, agents) if apart else _same_camera(encoded, agents)]
    if apart and controls:
        spaces.append(_controls(encoded, agents))
        if pixels is not None:
            spaces.append(_pixel_controls(encoded, pixels, cameras))
    rows: list[Row] = []
    for subject in itertools.chain(*spaces):
        check()
        shared = _measure(encoded, subject, agents)
        for back in subject.backs:
            metrics = _evaluate(encoded, subject, back) | shared
            method = subject.linear_map.method
            rows.append(_row(agents, subject.row, split, method, back, metrics))
    if pixels is not None and apart:
        metrics = _all_pixels(pixels, encoded.dataset.state_names, cameras)
        rows.append(_row(agents, RowName.ALL_PIXELS, split, "none", "none", metrics))
    return [{**row, "seed": encoded.experiment.seed} for row in rows]


def _row(
    agents: tuple[int, int], name: str, split: Split, method: str, back: str,
    metrics: dict[str, float],
) -> Row:  # fmt: skip
    return {
        "x": f"agent_{agents[0]}",
        "y": f"agent_{agents[1]}",
        "row": name,
        "split": split.name,
        "method": method,
        "back": back,
        "metrics": metrics,
    }


def _all_pixels(pixels: Pixels, names: tuple[str, ...], cameras: list[int]) -> dict[str, float]:
    """Returns `state_r2` of readouts from all pixels of both cameras."""
    split = pixels.split
    found = {"n_train": float(len(split.train)), "n_test": float(len(split.test))}
    for end, camera in zip(("_x", ""), cameras):
        found |= _state_r2(end, names, pixels.readout(camera))
    return found


def _state_r2(end: str, names: tuple[str, ...], per_state: np.ndarray) -> dict[str, float]:
    """Names R2 of the states f64[L] and their mean, of the space with this ending."""
    each = {f"state_r2{end}/{name}": float(r) for name, r in zip(names, per_state)}
    return {f"state_r2{end}": float(per_state.mean()), **each}


def _same_camera(encoded: Encoded, agents: tuple[int, int]) -> Iterator[_Subject]:
    """Yields two trained agents on one camera, under the configured map."""
    x, y = (encoded.latents[k] for k in agents)
    yield _Subject(RowName.SAME_CAMERA, x, y, encoded.fit(x, y))


def _trained(encoded: Encoded, agents: tuple[int, int]) -> Iterator[_Subject]:
    """Yields the trained pair under several maps."""
    x, y = (encoded.latents[k] for k in agents)
    for row, linear_map in encoded.maps(*agents).items():
        backs = BACKS if row == RowName.TRAINED else ("inverse",)
        yield _Subject(row, x, y, linear_map, backs)


def _controls(encoded: Encoded, agents: tuple[int, int]) -> Iterator[_Subject]:
    """Yields untrained encoders, and trained ones with wrong pairs."""
    split, (i, j), evidence = encoded.split, agents, encoded.evidence
    latents = evidence.untrained, evidence.untrained_hidden
    for row, z in zip((RowName.UNTRAINED, RowName.UNTRAINED_HIDDEN), latents):
        yield _Subject(row, z[i], z[j], encoded.fit(z[i], z[j]))
    x, y = encoded.latents[i], encoded.latents[j]
    rng = np.random.default_rng(encoded.experiment.seed)
    anywhere = controls.shuffled_within(np.zeros(len(x), int), (split.train, split.test), rng)
    yield _Subject(RowName.MISMATCHED, x, y[anywhere], encoded.fit(x, y[anywhere]))
    groups = encoded.dataset.instance_ids
    if (groups != groups[0]).any():  # blocks of time
        near = controls.shuffled_within(groups, (split.train, split.test), rng)
        yield _Subject(RowName.MISMATCHED_CELL, x, y[near], encoded.fit(x, y[near]))


def _pixel_controls(encoded: Encoded, pixels: Pixels, cameras: list[int]) -> Iterator[_Subject]:
    """Yields spaces that are linear in the pixels of both cameras."""
    dim = encoded.latents.shape[-1]
    for row, make, width in (
        (RowName.PIXEL_PCA, pixels.pca, dim),
        (RowName.PIXEL_PCA_WIDE, pixels.pca, 4 * dim),
        (RowName.RANDOM_PROJECTION, pixels.projection, dim),
    ):
        x, y = (make(camera, width) for camera in cameras)
        yield _Subject(row, x, y, encoded.fit(x, y))


def _evaluate(encoded: Encoded, subject: _Subject, back: str) -> dict[str, float]:
    """Evaluates the map of a subject, with one way back."""
    test = encoded.split.test
    neighbors = tuple(k for k in encoded.experiment.alignment.neighbors if k < len(test))
    x, y = subject.x[test], subject.y[test]
    return alignment.evaluate(subject.linear_map, x, y, back=back, neighbors=neighbors)


def _measure(encoded: Encoded, subject: _Subject, agents: tuple[int, int]) -> dict[str, float]:
    """Measures of a subject what no way back changes."""
    x, y, states, split = subject.x, subject.y, encoded.states, encoded.split
    found = {"rankme": collapse_metrics(y[split.test])["rankme"]}
    for end, z in (("_x", x), ("", y)):
        found |= _state_r2(end, encoded.dataset.state_names, readout_r2(z, states, split))
    found |= carried(subject.linear_map, x, y, states, split, encoded.dataset.state_names)
    if subject.row == RowName.TRAINED:
        found |= own_readouts(y, states, split) | theory.rotation(x, y, states, split)
        found["few_pairs_r2"] = few_pairs_r2(x, y, split)
        for end, agent in zip(("_x", ""), agents):
            found |= {f"{key}{end}": v for key, v in _of_walk(encoded, agent).items()}
    return found


def _of_walk(encoded: Encoded, agent: int) -> dict[str, float]:
    """Compares an agent and its own walk with the theory; nothing without walks."""
    walks = encoded.evidence.walks
    if walks is None:
        return {}
    known = walks, agent, encoded.latents[agent], encoded.states
    return theory.bound(*known) | theory.dynamics(*known)


def few_pairs_r2(x: np.ndarray, y: np.ndarray, split: Split) -> float:
    """Returns R2 of an orthogonal map that was fitted to five pairs, the mean over draws.

    The means of both spaces are those of all training states, which no pair is needed for.
    """
    rng, test = np.random.default_rng(0), split.test
    count = min(FEW_PAIRS, len(split.train))
    x_mean, y_mean = x[split.train].mean(0, np.float64), y[split.train].mean(0, np.float64)
    x, y = x - x_mean, y - y_mean
    scores = []
    for _ in range(DRAWS):
        rows = rng.choice(split.train, count, replace=False)
        u, _, vt = np.linalg.svd(y[rows].T @ x[rows], full_matrices=False)
        predicted = x[test] @ (u @ vt).T
        scores.append(alignment.prediction_r2(predicted, y[test], y[split.train].std(0)))
    return float(np.mean(scores))
