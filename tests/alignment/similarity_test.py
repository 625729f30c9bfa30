import numpy as np
import pytest

from socialjepa_jax.alignment import similarity
from socialjepa_jax.errors import InputError
from tests.alignment.golden import CASES, GOLDEN, check, standardized


@pytest.mark.parametrize("case", CASES)
def test_similarities_match(case):
    linear_map, x, y = standardized(case)
    values = {
        "sim/cka_minibatch20": similarity.cka_minibatch(x, y, 20),
        "sim/cka_unstd": similarity.cka(x * linear_map.x_scale, y * linear_map.y_scale),
        "shape/bures_nbs": similarity.shape_correlation(x, y),
        "cca/coefs": similarity.canonical_correlations(x, y),
        "cca/mean": similarity.canonical_correlations(x, y).mean(),
        "cca/r2_yanai": similarity.r2_whitened(x, y),
        "cca/svcca99": similarity.svcca(x, y),
        "cca/pwcca_xy": similarity.pwcca(x, y),
        "cca/pwcca_yx": similarity.pwcca(y, x),
    }
    for name, value in values.items():
        reference = GOLDEN[f"{case}/{name}"]
        np.testing.assert_allclose(value, reference, rtol=1e-6, atol=1e-9, err_msg=name)
    cosine = np.cos(GOLDEN[f"{case}/shape/angular"])
    np.testing.assert_allclose(np.cos(similarity.shape_angle(x, y)), cosine, rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_kernel_cka_and_fixed_svcca_match(case):
    _, x, y = standardized(case)
    check(case, "sim/cka_rbf_med", similarity.cka_rbf(x, y))
    check(case, "cca/svcca_fixed5", similarity.svcca(x, y, directions=5))
    bases = similarity.basis(x), similarity.basis(y)
    kept = [similarity.leading(b.s, 0.99) for b in bases]
    np.testing.assert_array_equal(kept, GOLDEN[f"{case}/cca/svcca99_k"])
    for name, b in zip("xy", bases):
        assert b.q.shape[1] == GOLDEN[f"{case}/cca/rank_{name}"]


@pytest.mark.parametrize("case", CASES)
def test_shuffled_values_match_order_by_order(case):
    _, x, y = standardized(case)
    orders = GOLDEN[f"{case}/null/perms"]
    check(case, "null/cka", [similarity.cka(x, y[order]) for order in orders])
    check(case, "null/cka_debiased", [similarity.cka_debiased(x, y[order]) for order in orders])


def test_debiased_measures_are_near_zero_for_independent_data():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 400, 100))
    assert similarity.cka(x, y) > 0.15
    assert abs(similarity.cka_debiased(x, y)) < 0.02
    assert abs(similarity.cka_minibatch(x, y, 40)) < 0.05


def test_ranks_of_latents():
    rng = np.random.default_rng(3)
    z = np.linalg.qr(rng.normal(size=(50, 8)))[0]
    np.testing.assert_allclose(similarity.rankme(z), 8)
    s = np.linalg.svd(z - z.mean(0), compute_uv=False)
    p = s / s.sum()
    np.testing.assert_allclose(similarity.effective_rank(z), np.exp(-p @ np.log(p)))
    np.testing.assert_allclose(similarity.effective_rank(z.T, center=False), 8)
    assert similarity.rankme(z + 100) < 1.5 < similarity.effective_rank(z + 100)
    assert similarity.effective_rank(np.ones((5, 3))) == 0


def test_invariances():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(80, 5)), rng.normal(size=(80, 6))
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    for measure in (similarity.cka, similarity.cka_debiased, similarity.shape_correlation):
        np.testing.assert_allclose(measure(3 * x @ rotation + 7, y), measure(x, y), rtol=1e-9)
    invertible = rng.normal(size=(5, 5))
    np.testing.assert_allclose(
        similarity.r2_whitened(x @ invertible, y), similarity.r2_whitened(x, y)
    )


@pytest.mark.parametrize("batch", [3, 21])
def test_batches_that_cannot_work_are_named(batch):
    with pytest.raises(InputError, match=f"batch={batch}"):
        similarity.cka_minibatch(np.eye(20), np.eye(20), batch)


def test_three_views_match():
    views = [GOLDEN[f"three_views/in/V{i}"] for i in range(3)]
    for debiased, name in ((True, "cka_debiased_matrix"), (False, "cka_matrix")):
        matrix = similarity.cka_matrix(views, views, debiased=debiased)
        np.testing.assert_allclose(matrix, GOLDEN[f"three_views/{name}"], rtol=1e-9)
    angles = [[similarity.shape_angle(a, b) for b in views] for a in views]
    check("three_views", "angular_matrix", angles, atol=1e-7)  # arccos near 1


def test_hsic_on_features_equals_its_definition_on_kernels():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(12, 3)) + 5, rng.normal(size=(12, 4)) - 2

    def hsic1(k, l):
        k, l, n = k - np.diag(np.diag(k)), l - np.diag(np.diag(l)), len(k)
        one = np.ones(n)
        total = np.trace(k @ l) + one @ k @ one * (one @ l @ one) / ((n - 1) * (n - 2))
        return total - 2 * (one @ k @ l @ one) / (n - 2)

    k, l = x @ x.T, y @ y.T
    expected = hsic1(k, l) / np.sqrt(hsic1(k, k) * hsic1(l, l))
    np.testing.assert_allclose(similarity.cka_debiased(x, y), expected, rtol=1e-9)
