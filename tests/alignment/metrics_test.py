import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment import neighbourhoods
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.study import curves, scores
from socialjepa_jax.errors import InputError
from tests.alignment.golden import CASES, GOLDEN, METHODS, UNIQUE, check, load
from tests.alignment.synthetic import pairs, world_pairs

KEYS = {
    "mse": "mse_dim",
    "mse_sum": "mse_sum",
    "mse_raw": "mse_dim_raw",
    "r2": "r2_vw",
    "r2_uniform": "r2_uniform",
    "r2_raw": "r2_vw_raw",
    "dsc": "dsc",
    "cka": "cka",
    "cka_debiased": "cka_debiased",
    "orthogonality": "orth_dev",
    "effective_rank": "erank",
    **{f"nos@{k}": f"nos{k}" for k in (1, 5, 10, 20)},
    **{f"nos_expected@{k}": f"nos{k}_expected" for k in (1, 5, 10, 20)},
}


def tolerance(case, key):
    """Relative and absolute. The lattice case ties distances that differ in their last bits."""
    if case == "duplicates_ties" and key.startswith("nos@"):
        return 0.0, 0.06  # any single tie rule is arbitrary there
    if case == "duplicates_ties" and key == "dsc":
        return 0.0, 4e-5
    return 1e-6, 1e-9 if key != "dsc" else 1e-6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_fit_and_evaluate_match(case, method):
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, **METHODS[method])
    reference = f"{case}/{method}"
    if case in UNIQUE or method != "proc":
        np.testing.assert_allclose(linear_map.w, GOLDEN[f"{reference}/W"], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            linear_map.w_inv, GOLDEN[f"{reference}/Winv"], rtol=1e-6, atol=1e-7
        )
    kappa = float(GOLDEN[f"{reference}/kappa"])
    if kappa < 1e12:
        np.testing.assert_allclose(linear_map.kappa, kappa, rtol=1e-6)
    else:
        assert linear_map.kappa > 1e12
    assert linear_map.rank == GOLDEN[f"{reference}/Winv_rank"]
    metrics = alignment.evaluate(linear_map, x_test, y_test)
    for key, name in KEYS.items():
        rtol, atol = tolerance(case, key)
        expected = GOLDEN[f"{reference}/{name}"]
        np.testing.assert_allclose(metrics[key], expected, rtol=rtol, atol=atol, err_msg=key)
    assert metrics["r2"] == alignment.r2(linear_map, x_test, y_test)


@pytest.mark.parametrize("case", CASES)
def test_the_other_common_spaces_match(case):
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, ridge=1.0)
    expected = {
        "forward": {"dsc": "ridge1/dsc_forward", "nos@10": "ridge1/nos10_forward"},
        "regression": {
            "dsc": "rev1/dsc",
            "cka": "rev1/cka",
            "nos@10": "rev1/nos10",
            "nos_expected@10": "rev1/nos10_expected",
        },
        "none": {
            "dsc": "sim/dsc_raw",
            "nos@10": "nomap/nos10",
            "cka": "sim/cka",
            "cka_debiased": "sim/cka_debiased",
            "procrustes_error": "shape/procrustes_d2",
        },
    }
    for back, names in expected.items():
        metrics = alignment.evaluate(linear_map, x_test, y_test, back=back)
        for key, name in names.items():
            rtol, atol = tolerance(case, key)
            reference = GOLDEN[f"{case}/{name}"]
            np.testing.assert_allclose(metrics[key], reference, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_predictions_explain_what_the_other_conventions_of_r2_say(case, method):
    if method == "proc" and case not in UNIQUE:
        return
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, **METHODS[method])
    zy, target = linear_map.standardize_y(y), linear_map.standardize_y(y_test)
    residual = target - linear_map.standardize_x(x_test) @ linear_map.w.T
    sse, sst = np.sum(residual**2, axis=0), np.sum((target - target.mean(0)) ** 2, axis=0)
    varies = sst > 0
    check(case, f"{method}/r2_vw_trainbase", 1 - sse.sum() / np.sum(target**2))
    check(case, f"{method}/r2_vw_sklearn", 1 - sse[varies].sum() / sst.sum())
    check(case, f"{method}/r2_uniform_valid", np.mean(1 - sse[varies] / sst[varies]))
    trained = zy - linear_map.standardize_x(x) @ linear_map.w.T
    check(case, f"{method}/mse_dim_train", np.mean(trained**2), atol=1e-12)
    carried = linear_map.backward(target, standardized=True)
    check(
        case, f"{method}/back_mse_dim", np.mean((linear_map.standardize_x(x_test) - carried) ** 2)
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_spectra_forward_spaces_and_searches_match(case, method):
    if method == "proc" and case not in UNIQUE:
        return
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, **METHODS[method])
    s = linear_map.singular_values
    check(case, f"{method}/s", s, atol=1e-9 * s[0])
    check(case, f"{method}/srank", np.sum(s**2) / s[0] ** 2)
    check(case, f"{method}/orth_dev_min", np.linalg.norm(s**2 - 1) / np.sqrt(len(s)))
    ties = case == "duplicates_ties"
    forward = alignment.evaluate(linear_map, x_test, y_test, back="forward")
    if ties and method == "proc":  # the rotated lattice: the reference splits ties by rounding
        check(case, "sim/dsc_raw", forward["dsc"], atol=4e-5)
    else:
        check(case, f"{method}/dsc_forward", forward["dsc"], atol=4e-5 if ties else 1e-6)
    check(case, f"{method}/nos10_forward", forward["nos@10"], atol=0.06 if ties else 1e-9)
    zx, zy = linear_map.standardize_x(x_test), linear_map.standardize_y(y_test)
    back = linear_map.backward(zy, standardized=True)
    distances = [np.sqrt(compare.pair_distances(z)) for z in (zx, back)]
    check(case, f"{method}/dsc_pearson", np.corrcoef(*distances)[0, 1], atol=1e-6)
    for kind, name in (("cosine", "cos"), ("l2", "l2")):
        found = neighbourhoods.retrieval(zx @ linear_map.w.T, zy, similarity=kind)
        for ours, theirs in (("recall@1", "r1"), ("recall@5", "r5"), ("recall@10", "r10")):
            check(case, f"{method}/retr_{name}_{theirs}", found[ours])
        check(case, f"{method}/retr_{name}_mrr", found["mrr"])
        check(case, f"{method}/retr_{name}_medr", found["median_rank"])


@pytest.mark.parametrize("lam", ["1", "100"])
@pytest.mark.parametrize("case", CASES)
def test_reverse_regression_matches(case, lam):
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, ridge=float(lam))
    check(case, f"rev{lam}/V", linear_map.w_back)
    backward = alignment.fit(y, x, ridge=float(lam))
    check(case, f"rev{lam}/r2_vw", alignment.r2(backward, y_test, x_test))
    found = alignment.evaluate(linear_map, x_test, y_test, back="regression")
    ties = case == "duplicates_ties"
    check(case, f"rev{lam}/dsc", found["dsc"], atol=4e-5 if ties else 1e-6)
    check(case, f"rev{lam}/cka", found["cka"])
    check(case, f"rev{lam}/nos10", found["nos@10"], atol=0.06 if ties else 1e-9)
    check(case, f"rev{lam}/nos10_expected", found["nos_expected@10"])


def test_orthogonal_maps_leave_the_geometry_as_it_is():
    x, y = pairs(noise=1.0)
    linear_map = alignment.fit(x, y, method="procrustes")
    results = [
        alignment.evaluate(linear_map, x, y, back=back) for back in ("none", "inverse", "forward")
    ]
    for key in ("dsc", "cka", "cka_debiased", "nos@5", "nos@50"):
        np.testing.assert_allclose([r[key] for r in results], results[0][key], rtol=1e-9)


def test_noise_ceiling_is_the_share_of_variance_between_states():
    rng = np.random.default_rng(4)
    states = np.repeat(np.arange(2000), 3)
    z = 2 * rng.normal(size=(2000, 3))[states] + rng.normal(size=(6000, 3))
    np.testing.assert_allclose(alignment.noise_ceiling(z, states), 4 / 5, atol=0.02)
    few = np.array([[0.0], [2.0], [7.0]])  # within: (1 + 1) / 1; about the mean 3: (9 + 1 + 16) / 2
    np.testing.assert_allclose(alignment.noise_ceiling(few, [0, 0, 1]), 1 - 2 / 13, rtol=1e-12)
    with pytest.raises(InputError, match="one repeat"):
        alignment.noise_ceiling(z[:10], np.arange(10))


def test_the_bound_on_dsc_goes_wherever_dsc_goes(monkeypatch):
    monkeypatch.setattr(compare, "EXACT", 100)  # as if 200 test pairs were many
    x, y = world_pairs(200)
    linear_map = alignment.fit(*world_pairs(100, seed=1))
    found = alignment.evaluate(linear_map, x, y, back="none")
    exact = compare.dsc(*linear_map.standardize(x, y), exact=True)
    assert abs(found["dsc"] - exact) < found["dsc_bound"] < 1e-3
    scored = scores.map_scores(linear_map, x, y, backs=("none",))
    (row,) = curves.pair_budget((x, y), (x, y), sizes=(), back="none")
    assert scored["none/dsc_bound"] == found["dsc_bound"]
    assert 0 < row["dsc_bound"] < 1e-3
    assert alignment.evaluate(linear_map, x[:90], y[:90])["dsc_bound"] == 0.0
