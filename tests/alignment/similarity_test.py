from pathlib import Path

import numpy as np
import pytest

from socialjepa_jax.alignment import fit, neighbourhoods, similarity, solve
from socialjepa_jax.alignment import similarity as similarity_lib
from socialjepa_jax.alignment.hub import fit_hub
from socialjepa_jax.errors import InputError

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "alignment.npz")
CASES = sorted({name.split("/")[0] for name in GOLDEN.files} - {"three_views"})


def standardized(case):
    x, y, x_test, y_test = (GOLDEN[f"{case}/in/{n}"] for n in ("X_tr", "Y_tr", "X_te", "Y_te"))
    linear_map = fit(x, y, method="lstsq")
    return linear_map, linear_map.standardize_x(x_test), linear_map.standardize_y(y_test)


@pytest.mark.parametrize("case", CASES)
def test_similarities_match(case):
    linear_map, x, y = standardized(case)
    values = {
        "sim/cka_minibatch20": similarity.cka_minibatch(x, y, 20),
        "sim/cka_unstd": similarity.cka(x * linear_map.x_scale, y * linear_map.y_scale),
        "shape/bures_nbs": similarity.shape_correlation(x, y),
        "cca/coefs": similarity_lib.canonical_correlations(x, y),
        "cca/mean": similarity_lib.mean_correlation(x, y),
        "cca/r2_yanai": similarity_lib.r2_whitened(x, y),
        "cca/svcca99": similarity_lib.svcca(x, y),
        "cca/pwcca_xy": similarity_lib.pwcca(x, y),
        "cca/pwcca_yx": similarity_lib.pwcca(y, x),
    }
    for name, value in values.items():
        reference = GOLDEN[f"{case}/{name}"]
        np.testing.assert_allclose(value, reference, rtol=1e-6, atol=1e-9, err_msg=name)
    cosine = np.cos(GOLDEN[f"{case}/shape/angular"])
    np.testing.assert_allclose(np.cos(similarity.shape_angle(x, y)), cosine, rtol=1e-9)


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


@pytest.mark.parametrize("case", CASES)
def test_leave_one_out_and_reduced_rank_match(case):
    x, y = GOLDEN[f"{case}/in/X_tr"], GOLDEN[f"{case}/in/Y_tr"]
    linear_map = fit(x, y, method="reduced_rank", rank=5, ridge=1.0)
    np.testing.assert_allclose(linear_map.w, GOLDEN[f"{case}/rrr5/W"], rtol=1e-6, atol=1e-9)
    x, y = linear_map.standardize_x(x), linear_map.standardize_y(y)
    loo, gcv = solve.leave_one_out(x, y, GOLDEN[f"{case}/loo/lams"])
    np.testing.assert_allclose(loo, GOLDEN[f"{case}/loo/mse"], rtol=1e-6)
    np.testing.assert_allclose(gcv, GOLDEN[f"{case}/loo/gcv"], rtol=1e-6)


def test_three_views_match():
    views = [GOLDEN[f"three_views/in/V{i}"] for i in range(3)]
    for debiased, name in ((True, "cka_debiased_matrix"), (False, "cka_matrix")):
        matrix = similarity.cka_matrix(views, views, debiased=debiased)
        np.testing.assert_allclose(matrix, GOLDEN[f"three_views/{name}"], rtol=1e-9)
    hub = fit_hub(views)
    np.testing.assert_allclose(hub.objective, GOLDEN["three_views/gpa/objective"], rtol=1e-6)
    spectrum = np.linalg.svd(hub.consensus, compute_uv=False)
    reference = GOLDEN["three_views/gpa/consensus_singular_values"]
    np.testing.assert_allclose(spectrum, reference, rtol=1e-6)


def test_hub_translates_between_rotated_spaces_of_different_width():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(100, 4))
    spaces = [u @ np.linalg.qr(rng.normal(size=(d, d)))[0][:4] + d for d in (4, 6, 5)]
    hub = fit_hub(spaces)
    assert hub.objective < 1e-12
    for source in range(3):
        for target in range(3):
            carried = hub.translate(spaces[source], source, target)
            np.testing.assert_allclose(carried, spaces[target], atol=1e-7)
    with pytest.raises(InputError, match="at least 2 spaces"):
        fit_hub(spaces[:1])


def test_debiased_measures_are_near_zero_for_independent_data():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 400, 100))
    assert similarity.cka(x, y) > 0.15
    assert abs(similarity.cka_debiased(x, y)) < 0.02
    assert abs(similarity.cka_minibatch(x, y, 40)) < 0.05


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
        similarity_lib.r2_whitened(x @ invertible, y), similarity_lib.r2_whitened(x, y)
    )


def test_chance_correction_is_one_for_random_neighbours():
    rng = np.random.default_rng(5)
    from socialjepa_jax.alignment import compare

    values = []
    for n in (200, 800):
        share = compare(rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), (20,)).overlap[20]
        values.append(neighbourhoods.chance_corrected_nos(1 - share, 20, n))
    np.testing.assert_allclose(values, 1.0, atol=0.02)


@pytest.mark.parametrize("batch", [3, 21])
def test_batches_that_cannot_work_are_named(batch):
    with pytest.raises(InputError, match=f"batch={batch}"):
        similarity.cka_minibatch(np.eye(20), np.eye(20), batch)
