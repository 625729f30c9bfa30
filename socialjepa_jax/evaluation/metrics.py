"""Scalars of an evaluation: collapse metrics of every agent, R2 and probes of every pair.

Shape key: A agents, N states, D latent dimensions.
"""

import numpy as np

from socialjepa_jax import alignment
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.config import Alignment, Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.evaluation.splits import pairs, splits

LOWEST_RANK, LOWEST_SPREAD = 2.0, 1e-3


def fit_map(how: Alignment, x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> alignment.LinearMap:
    """Fits the map y ~ W x of two agents' latents [N, D] on the given rows, as configured."""
    return alignment.fit(
        x[rows], y[rows], method=how.method, ridge=how.ridge, kappa_max=how.kappa_max
    )


def collapse_metrics(latents_ND: np.ndarray) -> dict[str, float]:
    """Measures how far latents are from collapse.

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


def has_collapsed(rankme: float, feature_std: float, latent_norm: float) -> bool:
    """True if latents carry next to nothing; the one rule of training and of the report.

    Args:
        rankme: effective rank of the centred latents; collapsed below 2, where they span a line.
        feature_std: mean standard deviation of the features; collapsed below 0.1 percent of
        latent_norm: the mean Euclidean norm of the latents.
    """
    return rankme < LOWEST_RANK or feature_std < LOWEST_SPREAD * max(latent_norm, 1e-12)


@one_blas_thread()
def scalars(
    experiment: Experiment, dataset: ViewDataset, latents_AND: np.ndarray
) -> dict[str, float]:
    """Returns collapse metrics and readouts of every agent, and held-out R2 of every pair."""
    found = {
        f"agent_{k}/{name}": value
        for k, latents_ND in enumerate(latents_AND)
        for name, value in collapse_metrics(latents_ND).items()
    }
    if dataset.states is not None:
        split = splits(dataset)[0]
        for k, latents_ND in enumerate(latents_AND):
            per_state = readout_r2(latents_ND, dataset.states, split)
            found[f"agent_{k}/state_r2"] = float(per_state.mean())
    for i, j, _ in pairs(experiment.agents.cameras):
        x, y = latents_AND[i], latents_AND[j]
        for split in splits(dataset):
            linear_map = fit_map(experiment.alignment, x, y, split.train)
            r2 = alignment.r2(linear_map, x[split.test], y[split.test])
            found[f"pair_{i}_{j}/{split.name}/r2"] = float(r2)
    return found


def best_metric(name: str, found: dict[str, float]) -> float:
    """Returns the number by which evaluations are compared (`config.Checkpoint.best_metric`).

    Args:
        name: "rankme" (mean over agents) | "r2" (mean over pairs, on the headline split).
        found: from `scalars`, of more than one agent for "r2".
    """
    ends = [key.split("/", 1)[1] for key in found if key.endswith(f"/{name}")]
    return float(np.mean([value for key, value in found.items() if key.endswith(ends[0])]))
