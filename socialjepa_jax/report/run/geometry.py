"""What the run's page draws from the latents themselves: maps, projections, neighbours.

Shape key: N states, R training rows, Q held-out rows, D latent dimensions, K neighbours shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from socialjepa_jax.report.run.data import RunData

if TYPE_CHECKING:
    from socialjepa_jax.alignment import LinearMap

_MAX_ROWS = 4096  # held-out states beyond this are sampled: all distances between them are made
_FIT_SETTINGS = ("method", "ridge", "standardize", "kappa_max")


@dataclass(frozen=True, eq=False)
class PairView:
    """Two agents' latents of the same states, and the map between them.

    Attributes:
        agents: (i, j): the map goes from agent i to agent j.
        split: The split whose training rows W was fitted on.
        linear_map: W with its standardisation.
        rows: [Q] held-out rows, as indices into the data set's states.
        x_QD: Standardised latents of agent i.
        mapped_QD: W x, in agent j's standardised space.
        y_QD: Standardised latents of agent j.
    """

    agents: tuple[int, int]
    split: str
    linear_map: "LinearMap"
    rows: np.ndarray
    x_QD: np.ndarray
    mapped_QD: np.ndarray
    y_QD: np.ndarray


def pair_view(
    run: RunData, agents: tuple[int, int], split: str, state_ids: np.ndarray
) -> PairView | None:
    """Fits W as the run's config says, on the training rows of a split, and applies it.

    Args:
        run: The run.
        agents: (i, j).
        split: "instance" or "state".
        state_ids: i64[N] of the data set, to find each latent's state.

    Returns:
        None where the latents cannot be paired: other states, no such split, an empty side, or
        values that are not finite.
    """
    from socialjepa_jax import alignment  # late: pages without latents need no device

    first, second = (run.latents[agent] for agent in agents)
    same = np.array_equal(first.state_ids, second.state_ids)
    if not same or split not in first.splits or not np.isin(first.state_ids, state_ids).all():
        return None
    train, test = (np.flatnonzero(first.splits[split] == part) for part in (0, 1))
    finite = np.isfinite(first.z).all() and np.isfinite(second.z).all()
    if len(train) < 2 or not len(test) or not finite:
        return None
    if len(test) > _MAX_ROWS:
        test = np.sort(np.random.default_rng(0).permutation(test)[:_MAX_ROWS])
    fitted = alignment.fit(first.z[train], second.z[train], **_fit_settings(run.config))
    x_QD = (first.z[test] - fitted.x_mean) / fitted.x_scale
    y_QD = (second.z[test] - fitted.y_mean) / fitted.y_scale
    order = np.argsort(state_ids)
    rows = order[np.searchsorted(state_ids, first.state_ids[test], sorter=order)]
    return PairView(agents, split, fitted, rows, x_QD, x_QD @ fitted.w.T, y_QD)


def _fit_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    settings = config.get("alignment", {})
    return {name: settings[name] for name in _FIT_SETTINGS if name in settings}


def orthogonality(singular_values: np.ndarray, input_dim: int) -> float:
    """||W^T W - I||_F / ||I||_F (Social-JEPA eq. 17) from the singular values of W [d2, d1]."""
    missing = input_dim - len(singular_values)
    return float(np.sqrt((np.sum((singular_values**2 - 1) ** 2) + missing) / input_dim))


def principal_axes(z_ND: np.ndarray, count: int = 2) -> np.ndarray:
    """The leading principal axes [D, count], each turned so that its largest entry is positive."""
    _, _, axes_DD = np.linalg.svd(z_ND - z_ND.mean(axis=0)[None], full_matrices=False)
    axes = axes_DD[:count].T
    return axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])[None]


def project(view: PairView) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[Q, 2] projections of agent i's latents before W, after W, and of agent j's latents.

    All on the axes of agent j, so that the three share a plane; agent i's own axes before W where
    the dimensions differ.
    """
    axes = principal_axes(view.y_QD)
    same = view.x_QD.shape[1] == view.y_QD.shape[1]
    before = view.x_QD @ (axes if same else principal_axes(view.x_QD))
    return before, view.mapped_QD @ axes, view.y_QD @ axes


def distances(view: PairView) -> np.ndarray:
    """Squared Euclidean distances [Q, Q] from every mapped latent to every latent of agent j."""
    a, b = view.mapped_QD, view.y_QD
    return np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None] - 2 * a @ b.T


def match_ranks(distances_QQ: np.ndarray) -> np.ndarray:
    """Rank [Q] of the true match among the candidates, 0 = nearest (ties count against it)."""
    own = np.diagonal(distances_QQ)[:, None]
    return (distances_QQ <= own).sum(axis=1) - 1


def spread_over(groups_N: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """`count` rows drawn at random, round-robin over the groups so that all appear; sorted."""
    order = np.random.default_rng(seed).permutation(len(groups_N))
    turn = np.zeros(len(groups_N), np.int64)  # how many of its group come before each row
    for group in np.unique(groups_N):
        members = order[groups_N[order] == group]
        turn[members] = np.arange(len(members))
    chosen = order[np.argsort(turn[order], kind="stable")[:count]]
    return chosen[np.argsort(groups_N[chosen], kind="stable")]
