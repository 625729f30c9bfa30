"""Straight-line plans in a latent space, and the shape of their paths in the world.

The planning experiment of "When Does LeJEPA Learn a World Model?" (appendix "Planning Experiment").
It needs encoded states only, so it works with simulated worlds and with images.

Shape key: L library entries, D state dimension, E latent dimension, K plans, T steps.
"""

from dataclasses import dataclass

import numpy as np
from scipy import spatial

from socialjepa_jax.errors import as_array, check_in_range, check_positive


@dataclass(frozen=True, eq=False)
class Plans:
    """Decoded plans and their shape.

    Attributes:
        paths: f64[K, T + 1, D], states along each plan, from start to goal.
        length_ratio: f64[K], length of the path over that of its chord; 1 is straight.
        deviation: f64[K], mean distance from the chord, in units of its length.
    """

    paths: np.ndarray
    length_ratio: np.ndarray
    deviation: np.ndarray


def straight_line_plans(
    states_LD: np.ndarray,
    latents_LE: np.ndarray,
    pairs_K2: np.ndarray,
    *,
    steps: int = 15,
    neighbors: int = 1,
    exact_ends: bool = False,
) -> Plans:
    """Interpolates between latents of a library and looks up the states along the way.

    Args:
        states_LD: true states of a library, e.g. joint angles.
        latents_LE: their encodings.
        pairs_K2: i64[K, 2], library rows of the start and the goal of each plan.
        steps, neighbors, exact_ends: see `plans_between`.
    """
    states = as_array(states_LD, "states", np.float64)
    latents = as_array(latents_LE, "latents", np.float64)
    return plans_between(
        states,
        latents,
        states[pairs_K2],
        latents[pairs_K2],
        steps=steps,
        neighbors=neighbors,
        exact_ends=exact_ends,
    )


def plans_between(
    states_LD: np.ndarray,
    latents_LE: np.ndarray,
    ends_K2D: np.ndarray,
    latent_ends_K2E: np.ndarray,
    *,
    steps: int = 15,
    neighbors: int = 1,
    exact_ends: bool = False,
) -> Plans:
    """Interpolates between any two latents, such as those that another agent's map returns.

    Args:
        states_LD, latents_LE: the library, see `straight_line_plans`.
        ends_K2D: true states of the start and the goal of each plan.
        latent_ends_K2E: the latents that stand for them.
        steps: T, straight pieces of a plan.
        neighbors: entries averaged at each step with weights 1 / latent distance; 1 takes the
            nearest entry (the paper; its code averages 5).
        exact_ends: take the true first and last states (the paper's code) instead of looking them
            up; with one neighbour and ends from the library both are the same unless latents
            coincide.
    """
    check_positive(steps=steps)
    check_in_range(1, len(states_LD), neighbors=neighbors)
    start, goal = latent_ends_K2E[:, 0], latent_ends_K2E[:, 1]
    t_T = np.linspace(0.0, 1.0, steps + 1)[None, :, None]
    line_KTE = (1.0 - t_T) * start[:, None] + t_T * goal[:, None]
    library = spatial.KDTree(latents_LE)
    distance, entry = library.query(line_KTE, k=[*range(1, neighbors + 1)])
    weight = 1.0 / np.maximum(distance, 1e-12)
    weight /= weight.sum(-1, keepdims=True)
    paths = np.einsum("ktn,ktnd->ktd", weight, states_LD[entry])
    if exact_ends:
        paths[:, [0, -1]] = ends_K2D
    return Plans(paths, path_length_ratio(paths, ends_K2D), _deviation(paths, ends_K2D))


def path_length_ratio(paths_KTD: np.ndarray, ends_K2D: np.ndarray) -> np.ndarray:
    """Returns the length of each path over the distance of its two ends: f64[K]."""
    lengths = np.linalg.norm(np.diff(paths_KTD, axis=1), axis=2).sum(1)
    return lengths / np.linalg.norm(ends_K2D[:, 1] - ends_K2D[:, 0], axis=1)


def _deviation(paths_KTD: np.ndarray, ends_K2D: np.ndarray) -> np.ndarray:
    chord = ends_K2D[:, 1] - ends_K2D[:, 0]
    length = np.linalg.norm(chord, axis=1)
    unit = chord / length[:, None]
    offset = paths_KTD - ends_K2D[:, :1]
    along = np.einsum("ktd,kd->kt", offset, unit)
    across = np.linalg.norm(offset - along[:, :, None] * unit[:, None], axis=2)
    return across.mean(1) / length


def random_pairs(num_states: int, num_plans: int, seed: int = 0) -> np.ndarray:
    """Draws distinct starts and goals by `seed`, the same for all encoders: i64[K, 2]."""
    rng = np.random.default_rng(seed)
    start = rng.integers(num_states, size=num_plans)
    return np.stack([start, (start + rng.integers(1, num_states, size=num_plans)) % num_states], 1)
