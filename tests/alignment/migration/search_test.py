"""Exact search of queries: ranks against brute force, and scores against their definitions."""

import itertools

import numpy as np
import pytest

from socialjepa_jax.alignment.migration import search
from socialjepa_jax.alignment.migration.search import Index, answer_ranks, query_scores

SIMILAR = {
    "cosine": lambda q, g: q @ g.T / np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(g, axis=1)),
    "dot": lambda q, g: q @ g.T,
    "l2": lambda q, g: -((q[:, None] - g) ** 2).sum(-1),
}


def brute_force(similar_QG, answers_QK):
    """Ranks by counting: one more than the better answers, and the documents ahead of each."""
    found = np.full(answers_QK.shape, np.inf)
    for q, answers in enumerate(answers_QK):
        answers = answers[answers >= 0]
        others = np.setdiff1d(np.arange(similar_QG.shape[1]), answers)
        values = np.sort(similar_QG[q, answers])[::-1]
        for k, value in enumerate(values):
            gap = similar_QG[q, others] - value
            found[q, k] = k + 1 + np.sum(gap > 1e-9) + np.sum(np.abs(gap) <= 1e-9) / 2
    return found


@pytest.mark.parametrize("similarity", search.SIMILARITIES)
def test_ranks_are_those_of_counting(similarity, monkeypatch):
    monkeypatch.setattr(search, "BLOCK_ROWS", 16)
    monkeypatch.setattr(search, "_QUERIES", 5)
    rng = np.random.default_rng(0)
    index = rng.normal(size=(50, 4)) + 3.0
    index[40:45] = index[7]  # copies of a document
    queries = index[rng.integers(0, 50, 23)] + rng.normal(size=(23, 4))
    answers = rng.permuted(np.tile(np.arange(50), (23, 1)), axis=1)[:, :3]
    answers[::2, 1], answers[::4, 2] = -1, -1
    answers[3], answers[5, 0] = [40, 7, 41], 42
    found = answer_ranks(queries, Index.of(index), answers, similarity)
    np.testing.assert_array_equal(found, brute_force(SIMILAR[similarity](queries, index), answers))
    if similarity == "l2":  # no digits are lost far from the origin
        moved = answer_ranks(queries + 1e6, Index.of(index + 1e6), answers, similarity)
        np.testing.assert_array_equal(moved, found)


def test_of_equal_documents_none_is_first():
    one = np.ones((9, 3))
    for similarity in search.SIMILARITIES:
        found = answer_ranks(one[:2], Index.of(one), np.array([[0], [8]]), similarity)
        np.testing.assert_array_equal(found, 5.0)
    zeros = answer_ranks(np.zeros((1, 3)), Index.of(np.zeros((9, 3))), np.array([[4]]), "cosine")
    assert zeros == 5.0


def test_scores_follow_their_definitions():
    found = query_scores(np.array([[1.0, 3.0, np.inf], [10.0, 12.0, 40.0], [11.0, np.inf, np.inf]]))
    np.testing.assert_array_equal(found["recall@1"], [1, 0, 0])
    np.testing.assert_array_equal(found["recall@10"], [1, 1, 0])
    np.testing.assert_allclose(found["mrr"], [1, 1 / 10, 1 / 11])
    ideal = 1 + 1 / np.log2(3), 1 + 1 / np.log2(3) + 1 / 2, 1
    gains = 1 + 1 / 2, 1 / np.log2(11), 0
    np.testing.assert_allclose(found["ndcg@10"], np.divide(gains, ideal))


def test_chance_is_the_mean_over_all_orders():
    numbers, count = [1, 2, 3], 6
    ranks = [np.full((720, 3), np.inf) for _ in numbers]
    for row, order in enumerate(itertools.permutations(range(1, count + 1))):
        for number, found in zip(numbers, ranks):
            found[row, :number] = sorted(order[:number])
    means = [query_scores(found) for found in ranks]
    chance = search.chance_scores(np.array(numbers), count)
    for key, value in chance.items():
        assert value == pytest.approx(np.mean([mean[key].mean() for mean in means]), rel=1e-12), key
