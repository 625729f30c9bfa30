import dataclasses

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from socialjepa_jax.report.run import data, geometry


@pytest.fixture(scope="module")
def view(finished_run, dataset):
    return geometry.pair_view(data.read_run(finished_run), (0, 1), "instance", dataset.state_ids)


def test_pair_view_maps_held_out_states_only(view, dataset):
    np.testing.assert_array_equal(view.rows, np.flatnonzero(dataset.split_instance == 1))
    assert view.linear_map.n_train == 240 and view.linear_map.ridge == 1.0
    raw = view.linear_map.forward(view.x_QD, standardized=True)
    np.testing.assert_allclose(view.mapped_QD, raw, atol=1e-12)


def test_pair_view_finds_states_in_a_dataset_of_another_order(finished_run, dataset):
    run = data.read_run(finished_run)
    shuffled = np.random.default_rng(0).permutation(dataset.state_ids)
    view = geometry.pair_view(run, (0, 1), "instance", shuffled)
    held_out = dataset.state_ids[dataset.split_instance == 1]
    np.testing.assert_array_equal(shuffled[view.rows], held_out)


def test_pair_view_of_other_states_or_of_nan_is_none(finished_run, dataset):
    run = data.read_run(finished_run)
    assert geometry.pair_view(run, (0, 1), "instance", dataset.state_ids + 1) is None
    broken = run.latents[1].z.copy()
    broken[3, 2] = np.nan
    run.latents[1] = dataclasses.replace(run.latents[1], z=broken)
    assert geometry.pair_view(run, (0, 1), "instance", dataset.state_ids) is None


def test_pair_view_samples_what_is_too_many(finished_run, dataset, monkeypatch):
    monkeypatch.setattr(geometry, "_MAX_STATES", 10)
    run = data.read_run(finished_run)
    view = geometry.pair_view(run, (0, 1), "instance", dataset.state_ids)
    assert len(set(view.rows)) == len(view.x_QD) == 10
    assert (dataset.split_instance[view.rows] == 1).all()


def test_principal_axes_are_the_leading_eigenvectors():
    z = np.random.default_rng(0).normal(size=(50, 4)) * [3.0, 0.1, 5.0, 1.0] + 10
    axes = geometry.principal_axes(z)
    _, vectors = np.linalg.eigh(np.cov(z.T))
    np.testing.assert_allclose(np.abs(axes.T @ vectors[:, [3, 2]]), np.eye(2), atol=1e-9)
    assert (axes[np.abs(axes).argmax(axis=0), [0, 1]] > 0).all()


def test_distances_and_ranks_match_scipy(view):
    expected = cdist(view.mapped_QD, view.y_QD, "sqeuclidean")
    gaps = geometry.distances(view)
    np.testing.assert_allclose(gaps, expected, atol=1e-9)
    order = np.argsort(expected, axis=1)
    ranks = (order == np.arange(len(order))[:, None]).argmax(axis=1)
    np.testing.assert_array_equal(geometry.match_ranks(gaps), ranks)


def test_ties_count_against_the_match():
    np.testing.assert_array_equal(geometry.match_ranks(np.zeros((3, 3))), [2, 2, 2])


def test_spread_covers_every_group_evenly():
    groups = np.repeat([0, 1, 2], [50, 3, 20])
    chosen = geometry.spread_over(groups, 8)
    assert len(set(chosen)) == 8
    np.testing.assert_array_equal(np.bincount(groups[chosen]), [3, 2, 3])
    np.testing.assert_array_equal(chosen, geometry.spread_over(groups, 8))
    assert sorted(geometry.spread_over(groups, 100)) == list(range(73))
