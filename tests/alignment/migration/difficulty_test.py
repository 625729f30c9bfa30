"""Retention predicted without queries, and from 30 of them."""

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment.migration import difficulty
from socialjepa_jax.alignment.migration.difficulty import predict_retention, retention_curve
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.study.settings import Settings
from tests.alignment.migration import cases
from tests.alignment.migration.cases import recall, unit


@pytest.fixture(scope="module")
def words():
    """Documents, queries of y, answers, the map, and the true retention of all 600 queries."""
    x, y, _, query_y, answers = cases.words()
    fitted = np.setdiff1d(np.arange(3000), answers)
    linear_map = alignment.fit(x[fitted], y[fitted], ridge=1.0)
    back = linear_map.backward(query_y, "regression")
    true = recall(back, x, answers) / recall(query_y, y, answers)
    return (x, y), query_y, answers, linear_map, true


def test_thirty_queries_predict_what_six_hundred_measure(words):
    """Nearer than these thirty do by themselves."""
    documents, query_y, answers, linear_map, true = words
    errors, direct, inside = [], [], []
    for seed in range(12):
        picked = np.random.default_rng(seed).permutation(600)[:30]
        queries = Queries(None, query_y[picked], answers[picked, None])
        found = predict_retention(linear_map, documents, answers, queries, Settings(seed=seed))
        assert found.queries == 30
        back = linear_map.backward(query_y[picked], "regression")
        own = [recall(q, z, answers[picked]) for q, z in zip((back, query_y[picked]), documents)]
        errors.append(abs(found.value - true))
        direct.append(abs(own[0] / own[1] - true))
        inside.append(found.low <= true <= found.high)
    assert np.mean(errors) < 0.03 and np.mean(errors) < 0.6 * np.mean(direct)
    assert np.mean(inside) >= 0.75


def test_many_queries_are_believed_themselves(words):
    documents, query_y, answers, linear_map, true = words
    queries = Queries(None, query_y, answers[:, None])
    found = predict_retention(linear_map, documents, answers, queries, Settings())
    assert found.value == pytest.approx(true, abs=0.015) and found.high - found.low < 0.1


def test_without_queries_of_y_or_any_hit_nothing_is_predicted(words):
    documents, query_y, answers, linear_map, _ = words
    old = Queries(np.ones((3, 100)), None, answers[:3, None])
    assert predict_retention(linear_map, documents, answers, old, Settings()) is None
    lost = Queries(None, -query_y[:3], answers[:3, None])
    assert predict_retention(linear_map, documents, answers, lost, Settings()) is None


def test_the_order_of_answers_does_not_matter(words):
    """A wrong second answer, far away, changes nothing that the first does not."""
    documents, query_y, answers, linear_map, _ = words
    pairs = np.stack([answers[:30], (answers[:30] + 1500) % 3000], axis=1)
    found = [
        predict_retention(
            linear_map, documents, answers, Queries(None, query_y[:30], rows), Settings()
        )
        for rows in (pairs, pairs[:, ::-1])
    ]
    alone = Queries(None, query_y[:30], pairs[:, :1])
    expected = predict_retention(linear_map, documents, answers, alone, Settings())
    assert found[0] == found[1] and found[0].value == pytest.approx(expected.value, abs=0.05)


def test_the_curve_is_that_of_moved_documents(words, monkeypatch):
    (x, y), _, answers, linear_map, _ = words
    found = retention_curve(linear_map, (x, y), answers, Settings(seed=3))
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 3000, (2, 600))
    assert 4 < len(found) < len(difficulty.SCALES) and found[-1].recall >= 0.1
    for point, scale in zip(found, difficulty.SCALES):
        made = y[answers] + scale * (y[first] - y[second])
        full = recall(made, y, answers)
        back = linear_map.backward(made, "regression")
        assert point.scale == scale and point.recall == pytest.approx(full)
        assert point.retention == pytest.approx(recall(back, x, answers) / full)
    assert np.all(np.diff([point.recall for point in found]) < 0)
    monkeypatch.setattr(difficulty, "CURVE_DOCUMENTS", 700)
    fewer = retention_curve(linear_map, (x, y), answers, Settings(seed=3))
    assert all(a.recall >= b.recall for a, b in zip(fewer, found))  # there is less to find


def test_a_rotation_keeps_everything():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(300, 12))
    rotation = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    x, held = unit(y) @ rotation, np.arange(200, 300)
    linear_map = alignment.fit(x[:200], unit(y)[:200], method="procrustes", standardize="center")
    for point in retention_curve(linear_map, (x, unit(y)), held, Settings()):
        assert point.retention == pytest.approx(1.0, abs=0.1)
    queries = Queries(None, unit(y)[held[:25]] + 0.1 * rng.normal(size=(25, 12)), held[:25, None])
    found = predict_retention(linear_map, (x, unit(y)), held, queries, Settings())
    assert found.value == pytest.approx(1.0, abs=0.03) and found.low <= 1.0 <= found.high
