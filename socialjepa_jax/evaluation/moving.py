"""The rows of alignment.json of a world whose states are known and continuous.

Beside every map stands what the map cannot say: how much of the state each of its two spaces holds
(`state_r2`). Two agents that lost the same latent agree perfectly.

Shape key: A agents, N states, D latent dimensions, L state dimensions, T steps of a walk, M
actions, P pixels.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.agents import AgentState, Trainer
from socialjepa_jax.alignment.actions import fit_by_actions
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import ImageFeed, WalkFeed
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation.latents import encode_chunks, encode_states
from socialjepa_jax.evaluation.metrics import collapse_metrics, fit_map
from socialjepa_jax.evaluation.readouts import r2_of_states, readout, readout_r2
from socialjepa_jax.evaluation.splits import Split, pairs, splits
from socialjepa_jax.evaluation.table import BACKS, Row
from socialjepa_jax.identifiability import metrics as theory
from socialjepa_jax.records import RowName

LABELS = (5, 20, 100)  # numbers of labelled states of an agent's own readout
FEW_PAIRS = 5
_DRAWS = 20  # draws of a few states that are averaged


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """What was encoded of a world in motion, beside the latents of the trained agents.

    Attributes:
        untrained: f32[A, N, D], latents of the same architectures at step 0.
        untrained_hidden: f32[A, N, width], their encoders' outputs before the linear head.
        walks: f32[A, T + 1, D], latents of each agent's own walk; None without walks.
        actions: f32[A, T, M], of the walks.
    """

    untrained: np.ndarray
    untrained_hidden: np.ndarray
    walks: np.ndarray | None = None
    actions: np.ndarray | None = None


def gather(trainer: Trainer, fresh: AgentState, state: AgentState, feed: ImageFeed) -> Evidence:
    """Encodes what a world in motion is measured on, beside its states by the trained agents.

    Args:
        trainer: of the agents.
        fresh: their states at step 0.
        state: their states after training.
        feed: of the run.
    """
    untrained = encode_states(trainer.encode_all, fresh, feed)
    steps = walks(trainer, state, feed)
    actions = feed.actions if isinstance(feed, WalkFeed) else None
    hidden = untrained.get("hidden", untrained["latent"])  # an encoder without a head
    return Evidence(untrained["latent"], hidden, steps, actions)


def walks(trainer: Trainer, state: AgentState, feed: ImageFeed) -> np.ndarray | None:
    """Encodes each agent's own walk: f32[A, T + 1, D]; None if the feed has none."""
    if not isinstance(feed, WalkFeed) or feed.actions is None:
        return None
    return encode_chunks(trainer.encode, state, feed, feed.walked(), feed.actions.shape[1] + 1)


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


def alignment_rows(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    evidence: Evidence,
    check: Callable[[], None] = lambda: None,
) -> list[Row]:
    """Returns the rows of alignment.json: every pair of agents, with its controls.

    Args:
        experiment, dataset: of the run; the data set has `states`.
        latents_AND: of the trained agents.
        evidence: what else was encoded.
        check: called between subjects.
    """
    rows: list[Row] = []
    pixels = Pixels(dataset)
    for i, j, _ in pairs(experiment.agents.cameras):
        rows += pair_rows(experiment, dataset, latents_AND, evidence, (i, j), check, pixels=pixels)
    return rows


def pair_rows(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    evidence: Evidence,
    agents: tuple[int, int],
    check: Callable[[], None] = lambda: None,
    *,
    pixels: Pixels | None,
) -> list[Row]:
    """Returns the rows of one pair of agents; two on one camera are a ceiling, without controls.

    Args:
        experiment, dataset, latents_AND, evidence, check: see `alignment_rows`.
        agents: (i, j).
        pixels: of the data set, for the controls that depend on the cameras alone; None: leaves
            them out.
    """
    split = splits(dataset)[0]
    cameras = [experiment.agents.cameras[k] for k in agents]
    spaces = [_trained(experiment, dataset, latents_AND, evidence, agents)]
    if cameras[0] != cameras[1]:
        spaces.append(_controls(experiment, dataset, latents_AND, evidence, agents))
        if pixels is not None:
            spaces.append(_pixel_controls(experiment, pixels, latents_AND.shape[-1], cameras))
    rows: list[Row] = []
    for subject in itertools.chain(*spaces):
        check()
        for back in subject.backs:
            metrics = _measure(experiment, dataset, subject, split, back)
            method = subject.linear_map.method
            rows.append(_row(agents, subject.row, split, method, back, metrics))
    if pixels is not None and cameras[0] != cameras[1]:
        metrics = _all_pixels(pixels, dataset.state_names, cameras)
        rows.append(_row(agents, RowName.ALL_PIXELS, split, "none", "none", metrics))
    return [{**row, "seed": experiment.seed} for row in rows]


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


def _ridge(
    experiment: Experiment,
    split: Split,
    row: str,
    x: np.ndarray,
    y: np.ndarray,
    backs: tuple[str, ...] = ("inverse",),
) -> _Subject:
    """Fits the configured map between two spaces."""
    return _Subject(row, x, y, fit_map(experiment.alignment, x, y, split.train), backs)


def _trained(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    evidence: Evidence,
    agents: tuple[int, int],
) -> Iterator[_Subject]:
    """Yields the trained pair under several maps; of agents on one camera, one map."""
    split, (i, j), cameras = splits(dataset)[0], agents, experiment.agents.cameras
    x, y = latents_AND[i], latents_AND[j]
    if cameras[i] == cameras[j]:
        yield _ridge(experiment, split, RowName.SAME_CAMERA, x, y)
        return
    yield _ridge(experiment, split, RowName.TRAINED, x, y, BACKS)
    rows = split.train
    orthogonal = alignment.fit(x[rows], y[rows], method="procrustes", standardize="center")
    yield _Subject(RowName.ORTHOGONAL, x, y, orthogonal)
    if evidence.walks is not None and evidence.actions is not None:
        walks, actions = evidence.walks, evidence.actions
        means = {"x_mean": x[rows].mean(0), "y_mean": y[rows].mean(0)}
        by_actions = fit_by_actions(walks[i], actions[i], walks[j], actions[j], **means)
        yield _Subject(RowName.ACTIONS, x, y, by_actions)


def _controls(
    experiment: Experiment,
    dataset: ViewDataset,
    latents_AND: np.ndarray,
    evidence: Evidence,
    agents: tuple[int, int],
) -> Iterator[_Subject]:
    """Yields untrained encoders, and trained ones with wrong pairs."""
    split, (i, j) = splits(dataset)[0], agents
    latents = evidence.untrained, evidence.untrained_hidden
    for row, z in zip((RowName.UNTRAINED, RowName.UNTRAINED_HIDDEN), latents):
        yield _ridge(experiment, split, row, z[i], z[j])
    x, y = latents_AND[i], latents_AND[j]
    rng = np.random.default_rng(experiment.seed)
    anywhere = controls.shuffled_within(np.zeros(len(x), int), (split.train, split.test), rng)
    yield _ridge(experiment, split, RowName.MISMATCHED, x, y[anywhere])


def _pixel_controls(
    experiment: Experiment, pixels: Pixels, dim: int, cameras: list[int]
) -> Iterator[_Subject]:
    """Yields spaces that are linear in the pixels of both cameras."""
    for row, make, width in (
        (RowName.PIXEL_PCA, pixels.pca, dim),
        (RowName.PIXEL_PCA_WIDE, pixels.pca, 4 * dim),
        (RowName.RANDOM_PROJECTION, pixels.projection, dim),
    ):
        x, y = (make(camera, width) for camera in cameras)
        yield _ridge(experiment, pixels.split, row, x, y)


def _measure(
    experiment: Experiment, dataset: ViewDataset, subject: _Subject, split: Split, back: str
) -> dict[str, float]:
    """All metrics of one row."""
    assert dataset.states is not None
    x, y, test = subject.x, subject.y, split.test
    neighbors = tuple(k for k in experiment.alignment.neighbors if k < len(test))
    metrics = alignment.evaluate(
        subject.linear_map, x[test], y[test], back=back, neighbors=neighbors
    )
    states, names = dataset.states, dataset.state_names
    metrics["rankme"] = collapse_metrics(y[test])["rankme"]
    for end, z in (("_x", x), ("", y)):
        metrics |= _state_r2(end, names, readout_r2(z, states, split))
    if subject.row in (RowName.TRAINED, RowName.ORTHOGONAL, RowName.ACTIONS):
        metrics |= carried(subject.linear_map, x, y, states, split)
    if subject.row == RowName.TRAINED:
        metrics |= own_readouts(y, states, split) | rotation(x, y, states, split)
        metrics["few_pairs_r2"] = few_pairs_r2(x, y, split)
    return metrics


def carried(
    linear_map: alignment.LinearMap, x: np.ndarray, y: np.ndarray, states: np.ndarray, split: Split
) -> dict[str, float]:
    """Returns the R2 of the states by x's readout on y mapped back: no label of y is used."""
    source = readout(x, states, split.train)
    predicted = source.forward(linear_map.backward(y[split.test], "regression"))
    return {"readout_carried": float(r2_of_states(predicted, states[split.test]).mean())}


def own_readouts(y: np.ndarray, states: np.ndarray, split: Split) -> dict[str, float]:
    """Returns the R2 of y's own readouts from few labels, means over draws, and from all."""
    rng = np.random.default_rng(0)
    found = {}
    for count in LABELS:
        if count > len(split.train):
            continue
        draws = [rng.choice(split.train, count, replace=False) for _ in range(_DRAWS)]
        scores = [
            r2_of_states(readout(y, states, rows).forward(y[split.test]), states[split.test]).mean()
            for rows in draws
        ]
        found[f"readout_own@{count}"] = float(np.mean(scores))
    return found


def few_pairs_r2(x: np.ndarray, y: np.ndarray, split: Split) -> float:
    """Returns R2 of an orthogonal map that was fitted to five pairs, the mean over draws.

    The means of both spaces are those of all training states, which no pair is needed for.
    """
    rng, test = np.random.default_rng(0), split.test
    count = min(FEW_PAIRS, len(split.train))
    x_mean, y_mean = x[split.train].mean(0, np.float64), y[split.train].mean(0, np.float64)
    x, y = x - x_mean, y - y_mean
    scores = []
    for _ in range(_DRAWS):
        rows = rng.choice(split.train, count, replace=False)
        u, _, vt = np.linalg.svd(y[rows].T @ x[rows], full_matrices=False)
        predicted = x[test] @ (u @ vt).T
        scores.append(alignment.prediction_r2(predicted, y[test], y[split.train].std(0)))
    return float(np.mean(scores))


def rotation(x: np.ndarray, y: np.ndarray, states: np.ndarray, split: Split) -> dict[str, float]:
    """Compares W with Q2 Q1^T, where h = Q z is each agent's own rotation of the states.

    Theorem: two agents that identify the state differ by W = Q2 Q1^T. Noise in x shrinks the
    singular values of a regression W. Where the errors of x ~ A1 z and y ~ A2 z are independent,
    W is A2 Cov(z) A1^T Cov(x)^-1; the errors that agents share make it larger.

    Returns:
        'rotation_angle': degrees, the largest angle of the rotation between the orthogonal factor
        of W and Q2 Q1^T; 'w_shrinkage': mean singular value of W on raw latents;
        'w_shrinkage_predicted': the same if errors were independent. Nothing if the widths differ
        from the number of states.
    """
    if not x.shape[1] == y.shape[1] == states.shape[1]:
        return {}
    x, y, states = (z[split.train] for z in (x, y, states))
    q = [theory.orthogonal_recovery(states, z, center=True)[1] for z in (x, y)]
    raw = alignment.fit(x, y, method="lstsq", standardize="center")
    turn = raw.w_orthogonal @ (q[1] @ q[0].T).T
    angles = np.degrees(np.abs(np.angle(np.linalg.eigvals(turn))))
    a = [theory.fit_affine(states, z)[0] for z in (x, y)]
    common = a[1] @ np.atleast_2d(np.cov(states.T)) @ a[0].T
    alone = common @ np.linalg.pinv(np.atleast_2d(np.cov(x.T)), hermitian=True)
    return {
        "rotation_angle": float(angles.max()),
        "w_shrinkage": float(raw.singular_values.mean()),
        "w_shrinkage_predicted": float(np.linalg.svd(alone, compute_uv=False).mean()),
    }
