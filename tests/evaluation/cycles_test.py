"""Maps between three agents on three cameras, recomputed with scikit-learn and SciPy."""

import dataclasses

import numpy as np
import pytest
from scipy import linalg
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score

from socialjepa_jax.evaluation import cycles, moving
from socialjepa_jax.evaluation.evidence import Evidence
from tests.evaluation import planted
from tests.evaluation.planted import STEPS, TURNS, wide

SCALES = np.array([[2.0, 1.0, 0.5], [1.0, 0.3, 1.0], [1.0, 1.0, 4.0]])


@pytest.fixture(scope="module")
def encoded():
    """Three agents, each with features of its own scales."""
    found = planted.encoded((0, 1, 2))
    rng = np.random.default_rng(3)
    noisy = 2 * (found.latents + rng.normal(size=found.latents.shape))
    evidence = dataclasses.replace(found.evidence, untrained=noisy)
    return dataclasses.replace(found, latents=found.latents * SCALES[:, None], evidence=evidence)


@pytest.fixture(scope="module")
def rows(encoded):
    return cycles.cycle_rows(encoded)


def find(rows, name):
    (row,) = [r for r in rows if r["row"] == name]
    return row


def test_triples_are_agents_on_three_cameras():
    assert list(cycles.triples((0, 1, 2))) == [(0, 1, 2)]
    assert list(cycles.triples((0, 1, 2, 0))) == [(0, 1, 2), (1, 2, 3)]
    assert list(cycles.triples((0, 1, 0, 1))) == list(cycles.triples((0, 1))) == []
    assert len(list(cycles.triples((0, 1, 2, 3)))) == 4


def test_rows_name_the_agent_between(rows):
    assert [(r["row"], r["method"]) for r in rows] == [
        ("cycle", "ridge"), ("cycle_orthogonal", "procrustes"), ("cycle_actions", "actions"),
        ("cycle_untrained", "ridge"),
    ]  # fmt: skip
    for row in rows:
        assert (row["x"], row["via"], row["y"]) == ("agent_0", "agent_1", "agent_2")
        assert (row["split"], row["back"], row["seed"]) == ("state", "none", 0)


@pytest.mark.parametrize("name", ["cycle", "cycle_untrained"])
def test_maps_by_regression_compose(encoded, rows, name):
    """On standardised latents; R2 pooled over features, as that of a pair."""
    train, test = encoded.split.train, encoded.split.test
    latents = encoded.latents if name == "cycle" else encoded.evidence.untrained
    z = [(wide(h) - wide(h[train]).mean(0)) / wide(h[train]).std(0) for h in latents]

    def w(i, j):
        return Ridge(alpha=1e-3, fit_intercept=False).fit(z[i][train], z[j][train]).coef_

    metrics = find(rows, name)["metrics"]
    around = w(2, 0) @ w(1, 2) @ w(0, 1)
    shown = {
        "direct_r2": (z[2], w(0, 2)),
        "composed_r2": (z[2], w(1, 2) @ w(0, 1)),
        "cycle_r2": (z[0], around),
    }
    for key, (target, matrix) in shown.items():
        expected = r2_score(target[test], z[0][test] @ matrix.T, multioutput="variance_weighted")
        assert metrics[key] == pytest.approx(expected, abs=1e-5), key
    distance = np.linalg.norm(around - np.eye(3)) / 3**0.5
    assert metrics["cycle_identity"] == pytest.approx(distance, abs=1e-5)
    assert metrics["composed_r2"] < metrics["direct_r2"] and distance > 0.05
    assert (metrics["n_train"], metrics["n_test"]) == (200, 100)


def test_orthogonal_maps_compose(encoded, rows):
    train, test = encoded.split.train, encoded.split.test
    h = [wide(z) - wide(z[train]).mean(0) for z in encoded.latents]
    walks = encoded.evidence.walks

    def by_pairs(i, j):
        return linalg.orthogonal_procrustes(h[i][train], h[j][train])[0].T

    def response(k):
        steps = wide(walks.latents[k]) - wide(encoded.latents[k][train]).mean(0)
        known = np.concatenate([steps[:-1], walks.actions[k]], axis=1)
        return LinearRegression(fit_intercept=False).fit(known, steps[1:]).coef_[:, 3:]

    def by_actions(i, j):
        return linalg.polar(response(j) @ response(i).T)[0]

    for name, w in (("cycle_orthogonal", by_pairs), ("cycle_actions", by_actions)):
        metrics = find(rows, name)["metrics"]
        around = w(2, 0) @ w(1, 2) @ w(0, 1)
        shown = {
            "direct_r2": (h[2], w(0, 2)),
            "composed_r2": (h[2], w(1, 2) @ w(0, 1)),
            "cycle_r2": (h[0], around),
        }
        for key, (target, matrix) in shown.items():
            expected = r2_score(
                target[test], h[0][test] @ matrix.T, multioutput="variance_weighted"
            )
            assert metrics[key] == pytest.approx(expected, abs=1e-5), (name, key)
        distance = np.linalg.norm(around - np.eye(3)) / 3**0.5
        assert metrics["cycle_identity"] == pytest.approx(distance, abs=1e-5)
    assert metrics["n_train"] == STEPS


def test_agents_without_errors_return_to_where_they_began(encoded):
    z = wide(encoded.dataset.states)
    exact = np.stack([z @ turn.T + 2.0 for turn in TURNS[:3]])
    bare = dataclasses.replace(encoded, latents=exact, evidence=Evidence(exact, exact))
    found = cycles.cycle_rows(bare)
    assert [r["row"] for r in found] == ["cycle", "cycle_orthogonal", "cycle_untrained"]
    for row in found:
        metrics = row["metrics"]
        assert metrics["cycle_identity"] == pytest.approx(0.0, abs=1e-4)
        for key in ("direct_r2", "composed_r2", "cycle_r2"):
            assert metrics[key] == pytest.approx(1.0, abs=1e-6)


def test_a_cycle_of_maps_that_disagree_is_far_from_the_identity(encoded):
    """A quarter turn is left over: sqrt(4 / 3)."""
    first, second, third = (encoded.maps(*leg)["orthogonal"] for leg in ((0, 1), (1, 2), (2, 0)))
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    back = (second.w @ first.w).T
    turned = dataclasses.replace(third, w=quarter @ back)
    found = cycles.distance_from_identity((first, second, turned))
    assert found == pytest.approx(2 / 3**0.5)


def test_the_table_of_a_run_ends_with_its_triples(encoded, rows):
    assert moving.alignment_rows(encoded)[-4:] == rows
