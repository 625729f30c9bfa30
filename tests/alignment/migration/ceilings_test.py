"""Ways to search real queries: the case of the words against NumPy, intervals and refusals."""

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment.migration.ceilings import WAYS, search_all
from socialjepa_jax.alignment.migration.decision import decide_search
from socialjepa_jax.alignment.migration.queries import Queries, check_queries
from socialjepa_jax.alignment.study.settings import Settings, Split
from socialjepa_jax.errors import InputError
from tests.alignment.migration import cases
from tests.alignment.migration.cases import recall, unit

SETTINGS = Settings(ridge=1e-3, resamples=300, seed=4)


@pytest.fixture(scope="module")
def words():
    """The arrays, the map, its training rows, and all ways to search."""
    x, y, query_x, query_y, answers = cases.words()
    queries = Queries(query_x, query_y, answers[:, None])
    split = Split.draw(np.arange(len(x)), SETTINGS, queries.documents)
    linear_map = SETTINGS.fit(x[split.train], y[split.train])
    shuffled = SETTINGS.shuffled_maps(linear_map, (x[split.train], y[split.train]), [None], 2)
    found = search_all(linear_map, (x, y), queries, SETTINGS, shuffled)
    return (x, y, query_x, query_y, answers), split, found


def test_words_are_found_as_often_as_numpy_finds_them(words):
    (x, y, query_x, query_y, answers), split, found = words
    np.testing.assert_array_equal(split.train, np.setdiff1d(np.arange(3000), answers))
    fitted = x[split.train], y[split.train]
    forward, back = cases.ridge(*fitted, 1e-3), cases.ridge(*fitted[::-1], 1e-3)
    half = np.random.default_rng(SETTINGS.seed).permutation(3000) < 1500
    expected = {
        "x_in_x": recall(query_x, x, answers),
        "y_in_y": recall(query_y, y, answers),
        "y_back_in_x": recall(back(query_y), x, answers),
        "x_forward_in_y": recall(forward(query_x), y, answers),
        "y_in_x_forward": recall(query_y, forward(x), answers),
        "mixed": recall(query_y, np.where(half[:, None], unit(forward(x)), unit(y)), answers),
    }
    named = {"x_in_x": 0.878, "y_in_y": 0.868, "y_back_in_x": 0.718}
    assert {key: round(expected[key], 3) for key in named} == named
    scores = {name: way.scores["recall@1"] for name, way in found.ways.items()}
    sampled = np.random.default_rng(SETTINGS.seed).choice(3000, 1000, replace=False)
    near = np.sort(unit(x) @ unit(back(y[sampled])).T, axis=1)[:, -10:].mean(axis=1)
    hubs = 2 * unit(back(query_y)) @ unit(x).T - near
    expected["y_back_in_x_csls"] = np.mean(hubs.argmax(axis=1) == answers)
    assert scores.keys() == {*expected, "chance", "shuffled"}  # x and y have unequal widths
    for name, value in expected.items():
        assert scores[name] == pytest.approx(value, abs=1e-12), name
        retention = value / expected["y_in_y"]
        assert found.ways[name].retention == pytest.approx(retention, rel=1e-12)
    assert scores["chance"] == pytest.approx(1 / 3000) and scores["shuffled"] < 0.01
    assert found.ways["y_back_in_x"].scores["recall@10"] == pytest.approx(0.968, abs=5e-4)


def test_intervals_are_paired_over_queries(words):
    (x, y, query_x, query_y, answers), _, found = words
    hits_x = (unit(query_x) @ unit(x).T).argmax(axis=1) == answers
    hits_y = (unit(query_y) @ unit(y).T).argmax(axis=1) == answers
    draws = np.random.default_rng(0).integers(0, 600, (2000, 600))
    gains = hits_y[draws].mean(1) - hits_x[draws].mean(1)
    ratios = hits_x[draws].mean(1) / hits_y[draws].mean(1)
    interval = found.gain_interval.low, found.gain_interval.high
    assert found.gain == pytest.approx(hits_y.mean() - hits_x.mean())
    np.testing.assert_allclose(interval, np.quantile(gains, [0.025, 0.975]), atol=0.006)
    interval = found.ways["x_in_x"].interval.low, found.ways["x_in_x"].interval.high
    np.testing.assert_allclose(interval, np.quantile(ratios, [0.025, 0.975]), atol=0.008)
    ceiling = found.ways["y_in_y"].interval
    assert (ceiling.low, ceiling.high) == pytest.approx((1.0, 1.0))
    for way in found.ways.values():
        assert all(0 <= i.low <= i.high <= 1 for i in way.intervals.values())


def a_pair(width_y):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 4))
    y = x @ rng.normal(size=(4, width_y)) + 0.1 * rng.normal(size=(60, width_y))
    return x, y, alignment.fit(x[20:], y[20:])


@pytest.mark.parametrize(
    ("sides", "width_y", "names"),
    [
        ("x", 4, {"x_in_x", "x_forward_in_y"}),
        ("y", 4, {*WAYS} - {"x_in_x", "x_forward_in_y"}),
        ("y", 5, {*WAYS} - {"x_in_x", "x_forward_in_y", "naive"}),
        ("xy", 4, set(WAYS)),
    ],
)
def test_the_given_queries_decide_which_ways_there_are(sides, width_y, names):
    x, y, linear_map = a_pair(width_y)
    queries = Queries(
        x[:20] if "x" in sides else None, y[:20] if "y" in sides else None, np.arange(20)[:, None]
    )
    found = search_all(linear_map, (x, y), queries, Settings(resamples=0))
    assert found.ways.keys() == names | {"chance"}
    retentions = [way.retention for way in found.ways.values()]
    assert np.isfinite(retentions).all() == ("y" in sides)
    assert not any(way.interval.known for way in found.ways.values())
    assert np.isfinite(found.gain) == (sides == "xy")


def test_hubs_are_of_cosines_alone():
    x, y, linear_map = a_pair(4)
    queries = Queries(None, y[:20], np.arange(20)[:, None])
    for similarity in ("dot", "l2"):
        found = search_all(linear_map, (x, y), queries, Settings(similarity=similarity))
        assert "y_back_in_x_csls" not in found.ways


def test_the_answer_of_a_gate_does_not_depend_on_the_seed(words):
    (x, y, query_x, query_y, answers), split, _ = words
    queries = Queries(query_x, query_y, answers[:, None])
    linear_map = SETTINGS.fit(x[split.train], y[split.train])
    for seed in range(5):
        settings = Settings(ridge=1e-3, seed=seed)
        found = search_all(linear_map, (x, y), queries, settings)
        assert decide_search(found, 0.9) == "keep"


def test_queries_with_the_same_answer_are_drawn_together():
    x, y, linear_map = a_pair(4)
    rows = np.repeat([0, 1], 30)
    queries = Queries(None, y[rows] + [[0, 0, 0, 0]], rows[:, None])
    queries.y[30:] = -y[1]  # all of one answer are hits, all of the other are misses
    found = search_all(linear_map, (x, y), queries, Settings(resamples=200))
    interval = found.ways["y_in_y"].intervals["recall@1"]
    assert (interval.low, interval.high) == pytest.approx((0, 1), abs=0.1)


def test_measured_queries_leave_half_of_the_documents_to_the_map():
    queries = Queries(np.zeros((100, 2)), None, np.arange(100)[:, None])
    found = queries.measured(np.arange(100), seed=0)
    assert len(found) == 50 and found.left_out == 50
    assert len(np.unique(found.answers)) == 50
    grouped = queries.measured(np.arange(100) // 10, seed=0)
    assert len(np.unique(grouped.answers // 10)) <= 5 < 10 < len(grouped)
    few = queries.take(np.arange(30)).measured(np.arange(100), seed=0)
    np.testing.assert_array_equal(few.answers, queries.answers[:30])
    with pytest.raises(InputError, match="hold more than half of the documents"):
        queries.measured(np.zeros(100, int), seed=0)
    wide = np.full((3, 100), -1)
    wide[0], wide[1:, 0] = np.arange(100), [4, 5]  # the first names every document
    found = Queries(np.zeros((3, 2)), None, wide).measured(np.arange(100), seed=0)
    np.testing.assert_array_equal(found.answers[:, 0], [4, 5])


def test_an_answer_that_is_named_twice_is_one():
    queries = Queries(np.zeros((2, 2)), None, np.array([[3, 7, 3], [-1, 5, -1]]))
    np.testing.assert_array_equal(queries.answers, [[7, 3, -1], [5, -1, -1]])


def test_few_queries_do_not_make_an_interval_narrow():
    """No draw shows what may be expected three times in a hundred."""
    x, y, linear_map = a_pair(4)
    for count in (2, 15):
        queries = Queries(x[:count], y[:count], np.arange(count)[:, None])
        found = search_all(linear_map, (x, y), queries, Settings(resamples=50))
        way = found.ways["x_in_x"]
        assert way.retention == 1.0 and way.scores["recall@1"] == 1.0
        assert way.interval.low == pytest.approx(max(0.0, 1 - 3 / count))
        assert found.gain_interval.high == pytest.approx(min(1.0, 3 / count))


@pytest.mark.parametrize(
    ("x", "y", "answers", "message"),
    [
        (None, None, [[0]], "give those of x, of y, or both"),
        (np.ones((2, 3)), None, [[0]], "queries of x: 2 rows for 1 rows of answers"),
        (np.ones((2, 3)), None, [[0], [-1]], "answers: row 1 holds no answer"),
        (np.ones((0, 3)), None, np.empty((0, 1), int), "none has an answer"),
    ],
)
def test_queries_that_cannot_be_are_refused(x, y, answers, message):
    with pytest.raises(InputError, match=message):
        Queries(x, y, np.asarray(answers))


def test_queries_must_fit_the_documents():
    queries = Queries(np.ones((1, 3)), None, np.array([[5]]))
    with pytest.raises(InputError, match="queries of x have 3 features, x has 4"):
        check_queries(queries, np.ones((9, 4)), np.ones((9, 4)))
    with pytest.raises(InputError, match="answers: there is no row 5 among 5"):
        check_queries(queries, np.ones((5, 3)), np.ones((5, 4)))
