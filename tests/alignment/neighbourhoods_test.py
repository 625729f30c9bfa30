import numpy as np
import pytest
from scipy.spatial.distance import cdist

from socialjepa_jax import alignment
from socialjepa_jax.alignment import neighbourhoods
from tests.alignment.golden import CASES, GOLDEN, standardized


@pytest.mark.parametrize("case", CASES)
def test_local_measures_match(case):
    linear_map, x, y = standardized(case)
    ties = case == "duplicates_ties"  # the reference sees ties or not by the last bits
    values = {
        "sim/mutual_knn10_cos": neighbourhoods.mutual_knn(x, y),
        "sim/cknna10": neighbourhoods.cknna(x, y),
    }
    for kind, name in (("cosine", "cos"), ("l2", "l2")):
        found = neighbourhoods.retrieval(x @ linear_map.w.T, y, similarity=kind)
        for ours, theirs in [
            ("recall@1", "r1"),
            ("recall@5", "r5"),
            ("recall@10", "r10"),
            ("mrr", "mrr"),
            ("median_rank", "medr"),
        ]:
            values[f"ols/retr_{name}_{theirs}"] = found[ours]
    for name, value in values.items():
        atol = 0.01 if ties and name.startswith("sim/") else 1e-9
        np.testing.assert_allclose(
            value, GOLDEN[f"{case}/{name}"], rtol=1e-6, atol=atol, err_msg=name
        )


@pytest.mark.parametrize("case", [c for c in CASES if f"{c}/knn/x10" in GOLDEN])
def test_neighbour_lists_match(case):
    for name, z in zip("xy", standardized(case)[1:]):
        found = neighbourhoods.nearest_neighbors(z, 10)
        np.testing.assert_array_equal(np.sort(found), np.sort(GOLDEN[f"{case}/knn/{name}10"]))


@pytest.mark.parametrize("case", CASES)
def test_rows_with_ties_are_seen_as_such(case):
    """Neighbours drawn at random among ties differ from another draw."""
    _, x, _ = standardized(case)
    found = alignment.compare(x, x, (10,))
    assert found.overlap[10] == 1
    assert (found.overlap_expected[10] < 1) == (GOLDEN[f"{case}/sim/tie_rows_x10"] > 0)


def test_products_rank_as_a_search_of_products_does():
    """Long rows of the gallery are near to many queries by their product and far by distance."""
    rng = np.random.default_rng(1)
    queries = rng.normal(size=(60, 5))
    gallery = (queries + rng.normal(size=(60, 5))) * rng.uniform(0.2, 5, (60, 1))
    best, middle = neighbourhoods.match_ranks(queries, gallery, similarity="dot")
    products = queries @ gallery.T
    expected = 1 + (products > np.diag(products)[:, None]).sum(axis=1)
    np.testing.assert_array_equal(best, expected)
    np.testing.assert_array_equal(middle, expected)


def test_neighbour_lists_match_brute_force():
    x = np.random.default_rng(0).normal(size=(300, 8))
    d = cdist(x, x)
    np.fill_diagonal(d, np.inf)
    np.testing.assert_array_equal(
        neighbourhoods.nearest_neighbors(x, 4), np.argsort(d, axis=1)[:, :4]
    )


def test_chance_correction_is_one_for_random_neighbours():
    np.testing.assert_allclose(neighbourhoods.chance_corrected_nos(1 - 1 / 4, 1, 5), 1, rtol=1e-12)
    rng = np.random.default_rng(5)
    values = []
    for n in (200, 800):
        share = alignment.compare(rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), (20,)).overlap[
            20
        ]
        values.append(neighbourhoods.chance_corrected_nos(1 - share, 20, n))
    np.testing.assert_allclose(values, 1.0, atol=0.02)
