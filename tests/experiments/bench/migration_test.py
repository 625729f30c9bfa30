"""The bench of migrations: its truth, its baselines, and what it says of our tool."""

import numpy as np
import pytest

from experiments.bench import migration, migration_speed, migrations
from experiments.bench.migration import Outcome
from tests.alignment.migration import cases


def test_the_truth_is_that_of_the_tool_s_own_map():
    made = migration.words()
    picked = migration.calibration(made, 0)
    assert len(np.unique(picked)) == 30
    found = migration.of_ours("words", made, picked)
    x, y, _, query_y, answers = cases.words()
    linear_map = migration.SETTINGS.fit(x[made.fitted], y[made.fitted])
    back = cases.recall(linear_map.backward(query_y, "regression"), x, answers)
    assert found.recall == pytest.approx(back)
    assert found.true == pytest.approx(back / cases.recall(query_y, y, answers))
    assert found.low < found.predicted < found.high
    other = migration.of_sklearn("words", made, picked)
    assert 0.6 < other.recall < 0.8 and np.isnan(other.low)


def test_baselines_are_fitted_on_other_families():
    ours = [
        Outcome("ours", case, family, true, 0.0)
        for case, family, true in (
            ("0", "a", 0.2),
            ("1", "a", 0.4),
            ("2", "b", 0.6),
            ("3", "b", 1.0),
        )
    ]
    found = migration.baselines(ours, {"0": 0.1, "1": 0.2, "2": 0.3, "3": 0.5})
    np.testing.assert_allclose(found["constant"], [0.6, 0.4, 0.3, 0.7])
    # Lines through the other family are exact, but go no farther than its values.
    np.testing.assert_allclose(found["overlap"], [0.4, 0.2, 0.2, 0.6])


def test_a_decision_is_right_or_not(monkeypatch):
    made = migrations.make(4)
    ours = Outcome("ours", "4", made.family, 0.2, 0.2)
    assert migration.decided(made, ours)
    monkeypatch.setattr(migration.decision, "decide_search", lambda *_: "bridge")
    assert not migration.decided(made, ours)


def test_the_quickest_of_alternating_calls_counts():
    calls = []
    jobs = {name: lambda name=name: calls.append(name) for name in "ab"}
    taken = migration_speed.least(jobs, 3)
    assert calls == list("ababab") and all(value >= 0 for value in taken.values())


def test_every_job_has_ours_and_a_rival():
    x, y = (np.random.default_rng(i).normal(size=(60, 4)).astype(np.float32) for i in (0, 1))
    jobs = migration_speed._jobs(x, y, np.arange(20))
    for job, calls in jobs.items():
        assert "ours" in calls and len(calls) > 1, job
        for call in calls.values():
            call()
