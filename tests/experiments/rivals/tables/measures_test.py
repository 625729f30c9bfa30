"""Measures of pairs of agents against direct computation, and intervals by hand."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from experiments.rivals import methods, toys
from experiments.rivals.tables import measures
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.config import Alignment
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation.splits import Split

HOW = Alignment()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    chosen = methods.experiment("ijepa", 25, **toys.SMOKE)
    data = dataclasses.replace(
        chosen.data, image_size=12, elevations=(0, 4, 8), lightings=(0, 3), instances=4
    )
    dataset = data.load(tmp_path_factory.mktemp("cache"))
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(dataset.num_states, 4))
    x, y = (shared @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(len(shared), 6))
            for _ in range(2))  # fmt: skip
    return dataset, evaluation.splits(dataset)[0], x, y


def without_each(dataset, split):
    objects = dataset.instance_ids[split.test]
    return [split.test[objects != each] for each in np.unique(objects)]


def test_measures_of_a_pair_are_those_of_its_map(world):
    dataset, split, x, y = world
    found = measures.of_pair(HOW, dataset, split, x, y)
    fitted = evaluation.fit_map(HOW, x, y, split.train)
    assert found["r2"][0] == pytest.approx(alignment.r2(fitted, x[split.test], y[split.test]))
    kept = without_each(dataset, split)
    expected = [alignment.r2(fitted, x[rows], y[rows]) for rows in kept]
    np.testing.assert_allclose(found["r2"][1], expected, rtol=1e-6)
    assert found["kappa"][0] == pytest.approx(fitted.kappa)
    assert found["kappa_effective"] == (pytest.approx(fitted.kappa_effective), None)
    features = controls.shared_factors(dataset, controls.shared_factor_names(dataset))
    u, v = (controls.partial_out(z, features, split.train, ridge=1e-6) for z in (x, y))
    rest = evaluation.fit_map(HOW, u, v, split.train)
    assert found["r2_beyond"][0] == pytest.approx(alignment.r2(rest, u[split.test], v[split.test]))


def test_areas_are_those_of_matched_ranks_on_every_set_of_rows(world):
    dataset, split, x, y = world
    found = measures.of_pair(HOW, dataset, split, x, y)
    train = x[split.train], y[split.train]
    for value, rows in zip(
        [found["area"][0], *found["area"][1]], [split.test, *without_each(dataset, split)]
    ):
        matched = alignment.matched_rank(*train, x[rows], y[rows], ranks=measures.RANKS, shuffles=1)
        assert value == pytest.approx(matched.area, abs=1e-9)


def test_a_grid_is_filled_row_by_row_and_averages_what_is_left_out():
    pairs = [(i, j) for i in range(2) for j in (5, 6, 7)]
    found = measures.grid(
        pairs, lambda i, j: {"a": (10.0 * i + j, np.array([i, j])), "b": (1.0 * j, None)}, 3
    )
    assert found["a"]["pairs"] == [[5, 6, 7], [15, 16, 17]]
    assert found["a"]["without"] == [0.5, 6.0]
    assert found["b"] == {"pairs": [[5, 6, 7]] * 2, "without": None}


def test_an_interval_adds_the_variances_of_agents_and_objects():
    rng = np.random.default_rng(0)
    pairs, without = rng.normal(size=(3, 3)), 0.1 * rng.normal(size=20)
    found = measures.interval({"pairs": pairs.tolist(), "without": without.tolist()})
    parts = [
        (19 * without.var(), 19),
        (pairs.mean(1).var(ddof=1) / 3, 2),
        (pairs.mean(0).var(ddof=1) / 3, 2),
    ]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    assert found.value == pytest.approx(pairs.mean())
    assert found.high - found.value == pytest.approx(half) == found.value - found.low


def test_differences_are_paired_and_one_pair_has_no_interval():
    rng = np.random.default_rng(1)
    pairs, without = rng.normal(size=(3, 3)), rng.normal(size=5)
    base = {"pairs": pairs.tolist(), "without": without.tolist()}
    shifted = {"pairs": (pairs + 0.25).tolist(), "without": (without + 0.25).tolist()}
    found = measures.interval(shifted, base)
    assert (found.value, found.high - found.low) == (
        pytest.approx(0.25),
        pytest.approx(0, abs=1e-9),
    )
    one = measures.interval({"pairs": [[0.5]], "without": None})
    assert one.value == 0.5 and np.isnan(one.low) and np.isnan(one.high)
    against_one = measures.interval({"pairs": pairs.tolist(), "without": None},
                                    {"pairs": [[0.5]], "without": None})  # fmt: skip
    assert against_one.value == pytest.approx(pairs.mean() - 0.5)


def test_kappa_leaves_out_the_direction_that_a_layer_norm_takes():
    rng = np.random.default_rng(0)
    x, y = (z - z.mean(1, keepdims=True) for z in rng.normal(size=(2, 200, 5)))
    linear_map = alignment.fit(x, y)
    values = np.linalg.svd(linear_map.w, compute_uv=False)
    assert values[-1] < 1e-8 * values[0]
    assert measures.kappa(linear_map) == pytest.approx(values[0] / values[-2])


def test_wrong_partners_stay_in_their_part_and_are_the_same_in_every_call():
    split = Split("instance", np.arange(0, 30, 2), np.arange(1, 30, 2))
    partners = measures.wrong_partners(split, 30)
    np.testing.assert_array_equal(partners, measures.wrong_partners(split, 30))
    for rows in (split.train, split.test):
        assert not np.array_equal(partners[rows], rows)
        np.testing.assert_array_equal(np.sort(partners[rows]), rows)
