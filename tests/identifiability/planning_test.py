import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import planning


def _grid(side=81):
    axis = np.linspace(-2, 2, side)
    return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)


def test_rotated_latents_give_straight_plans():
    states = _grid()
    pairs = planning.random_pairs(len(states), 30)
    far = np.linalg.norm(states[pairs[:, 0]] - states[pairs[:, 1]], axis=1) > 1.0
    plans = planning.straight_line_plans(
        states, states @ stats.ortho_group.rvs(2, random_state=0).T, pairs[far], steps=5
    )
    assert plans.paths.shape == (far.sum(), 6, 2)
    np.testing.assert_allclose(plans.paths[:, [0, -1]], states[pairs[far]], atol=1e-9)
    # Looked-up states are off by at most half a cell's diagonal, 0.035.
    assert plans.deviation.max() < 0.04
    assert (plans.length_ratio >= 1 - 1e-12).all()
    assert plans.length_ratio.max() < 1.1


def test_bent_latents_give_detours():
    states = _grid()
    angle = 1.2 * np.linalg.norm(states, axis=1)
    bent = np.stack(
        [
            np.cos(angle) * states[:, 0] - np.sin(angle) * states[:, 1],
            np.sin(angle) * states[:, 0] + np.cos(angle) * states[:, 1],
        ],
        axis=1,
    )
    pairs = planning.random_pairs(len(states), 30)
    plans = planning.straight_line_plans(states, bent, pairs)
    assert plans.length_ratio.mean() > 1.2


def test_path_of_known_length():
    path = np.array([[[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    ends = path[:, [0, -1]]
    np.testing.assert_allclose(planning.path_length_ratio(path, ends), [2 / np.sqrt(2)])
    averaged = planning.straight_line_plans(
        path[0], path[0], np.array([[0, 2]]), steps=2, neighbors=2, exact_ends=True
    )
    np.testing.assert_allclose(averaged.paths[0, [0, 2]], ends[0])
    # Half-way lies (0.5, 0.5): all three entries are equally far from it.
    assert np.isin(averaged.paths[0, 1], [0.0, 0.5, 1.0]).all()


def test_detour_of_known_shape():
    """Latents on a line, whose states lie on a tent two units wide and one high."""
    tent = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    plans = planning.straight_line_plans(tent, np.arange(3.0)[:, None], np.array([[0, 2]]), steps=2)
    np.testing.assert_allclose(plans.paths[0], tent)
    np.testing.assert_allclose(plans.length_ratio, [np.sqrt(2)])
    np.testing.assert_allclose(plans.deviation, [1 / 3 / 2])  # in units of the chord


def test_neighbours_are_averaged_by_the_inverse_of_their_distance():
    states, latents = np.array([[0.0], [1.0], [10.0]]), np.array([[0.0], [1.0], [2.0]])
    plans = planning.straight_line_plans(
        states, latents, np.array([[0, 1]]), steps=4, neighbors=2, exact_ends=True
    )
    np.testing.assert_allclose(plans.paths[0, :, 0], [0.0, 0.25, 0.5, 0.75, 1.0])


def test_pairs_are_distinct_and_repeatable():
    pairs = planning.random_pairs(10, 500, seed=3)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert set(pairs.ravel()) == set(range(10))
    np.testing.assert_array_equal(pairs, planning.random_pairs(10, 500, seed=3))


def test_refuses_more_neighbours_than_entries():
    with pytest.raises(InputError, match="neighbors=4"):
        planning.straight_line_plans(np.eye(3), np.eye(3), np.array([[0, 1]]), neighbors=4)


def test_plans_between_ends_that_another_map_returns():
    """Ends off the library are looked up; an error of the goal moves the last state by as much."""
    states = _grid()
    ends = np.array([[[-1.03, -1.0], [1.0, 1.02]]])
    plans = planning.plans_between(states, states, ends, ends)
    np.testing.assert_allclose(plans.paths[0, [0, -1]], ends[0], atol=0.035)
    moved = ends + np.array([[[0.0, 0.0], [0.5, 0.0]]])
    off = planning.plans_between(states, states, ends, moved)
    assert off.paths[0, -1] - plans.paths[0, -1] == pytest.approx([0.5, 0.0], abs=0.05)
    assert off.deviation[0] > plans.deviation[0] + 0.03
    told = planning.plans_between(states, states, ends, moved, exact_ends=True)
    np.testing.assert_array_equal(told.paths[0, [0, -1]], ends[0])
