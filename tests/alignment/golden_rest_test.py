"""The reference values that no other file of this folder looks at, and that none is forgotten."""

from pathlib import Path

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment import neighbourhoods, similarity, solve
from socialjepa_jax.alignment import similarity as similarity_lib
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.hub import fit_hub

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "alignment.npz")
CASES = sorted({name.split("/")[0] for name in GOLDEN.files} - {"three_views"})
METHODS = {
    "ols": {"method": "lstsq", "kappa_max": 1e8},
    "ridge1": {"ridge": 1.0, "kappa_max": 1e8},
    "ridge100": {"ridge": 100.0, "kappa_max": 1e8},
    "proc": {"method": "procrustes", "kappa_max": 1e8},
}
# W of Procrustes is not unique where the cross moment is singular.
UNIQUE = [case for case in CASES if case != "rank_deficient"]


def load(case):
    return [GOLDEN[f"{case}/in/{name}"] for name in ("X_tr", "Y_tr", "X_te", "Y_te")]


def check(case, name, value, **tolerance):
    expected = GOLDEN[f"{case}/{name}"]
    tolerance = {"rtol": 1e-6, "atol": 1e-9, **tolerance}
    np.testing.assert_allclose(value, expected, err_msg=f"{case}/{name}", **tolerance)


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


@pytest.mark.parametrize("case", CASES)
def test_procrustes_spectrum_determinant_and_scale_match(case):
    x, y, _, _ = load(case)
    plain = alignment.fit(x, y, method="procrustes")
    scaled = alignment.fit(x, y, method="procrustes", scale=True)
    zx, zy = plain.standardize_x(x), plain.standardize_y(y)
    s = np.linalg.svd(zy.T @ zx, compute_uv=False)
    check(case, "proc/sv", s, atol=1e-9 * s[0])
    if case in UNIQUE:
        at = np.unravel_index(np.argmax(np.abs(plain.w)), plain.w.shape)
        check(case, "proc/scale", scaled.w[at] / plain.w[at])
    if f"{case}/proc/det" in GOLDEN and case in UNIQUE:
        check(case, "proc/det", np.linalg.det(plain.w))
    if case not in UNIQUE:  # another W does as well on the pairs it was fitted on
        check(case, "proc/mse_dim_train", np.mean((zy - zx @ plain.w.T) ** 2))


@pytest.mark.parametrize("case", CASES)
def test_least_squares_rank_and_standard_deviations_match(case):
    x, y, _, _ = load(case)
    linear_map = alignment.fit(x, y, method="lstsq")
    s = np.linalg.svd(linear_map.standardize_x(x), compute_uv=False)
    assert np.sum(s > solve.LSTSQ_CUTOFF * s[0]) == GOLDEN[f"{case}/ols/rank"]
    for name, scale, z in (("x", linear_map.x_scale, x), ("y", linear_map.y_scale, y)):
        check(case, f"std/sd_{name}", scale)
        constant = np.ptp(z.astype(np.float64), axis=0) == 0
        np.testing.assert_array_equal(constant, GOLDEN[f"{case}/std/const_{name}"])


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


@pytest.mark.parametrize("case", CASES)
def test_reduced_rank_errors_match_and_truncating_is_never_better(case):
    x, y, x_test, y_test = load(case)
    reduced = alignment.fit(x, y, method="reduced_rank", rank=5, ridge=1.0)
    full = alignment.fit(x, y, ridge=1.0)
    zx, zy = full.standardize_x(x), full.standardize_y(y)
    error = lambda w, a, b: np.mean((b - a @ w.T) ** 2)  # noqa: E731
    check(case, "rrr5/mse_dim_train", error(reduced.w, zx, zy))
    test = full.standardize_x(x_test), full.standardize_y(y_test)
    check(case, "rrr5/mse_dim", error(reduced.w, *test))
    u, s, vt = np.linalg.svd(full.w, full_matrices=False)
    truncated = (u[:, :5] * s[:5]) @ vt[:5]
    check(case, "trunc5/mse_dim_train", error(truncated, zx, zy))
    assert error(reduced.w, zx, zy) <= error(truncated, zx, zy) + 1e-12


def standardized(case):
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, method="lstsq")
    return linear_map.standardize_x(x_test), linear_map.standardize_y(y_test)


@pytest.mark.parametrize("case", CASES)
def test_kernel_cka_and_fixed_svcca_match(case):
    x, y = standardized(case)
    check(case, "sim/cka_rbf_med", similarity_lib.cka_rbf(x, y))
    check(case, "cca/svcca_fixed5", similarity_lib.svcca(x, y, directions=5))
    bases = similarity_lib.basis(x), similarity_lib.basis(y)
    kept = [similarity_lib.leading(b.s, 0.99) for b in bases]
    np.testing.assert_array_equal(kept, GOLDEN[f"{case}/cca/svcca99_k"])
    for name, b in zip("xy", bases):
        assert b.q.shape[1] == GOLDEN[f"{case}/cca/rank_{name}"]


@pytest.mark.parametrize("case", CASES)
def test_shuffled_values_match_order_by_order(case):
    x, y = standardized(case)
    orders = GOLDEN[f"{case}/null/perms"]
    check(case, "null/cka", [similarity.cka(x, y[order]) for order in orders])
    check(case, "null/cka_debiased", [similarity.cka_debiased(x, y[order]) for order in orders])


@pytest.mark.parametrize("case", [c for c in CASES if f"{c}/knn/x10" in GOLDEN])
def test_neighbour_lists_match(case):
    for name, z in zip("xy", standardized(case)):
        found = neighbourhoods.nearest_neighbors(z, 10)
        np.testing.assert_array_equal(np.sort(found), np.sort(GOLDEN[f"{case}/knn/{name}10"]))


@pytest.mark.parametrize("case", CASES)
def test_rows_with_ties_are_seen_as_such(case):
    """Neighbours drawn at random among ties agree with themselves only where there are none."""
    x, _ = standardized(case)
    found = alignment.compare(x, x, (10,))
    assert found.overlap[10] == 1
    assert (found.overlap_expected[10] < 1) == (GOLDEN[f"{case}/sim/tie_rows_x10"] > 0)


def test_three_views_have_their_angles_and_consensus():
    views = [GOLDEN[f"three_views/in/V{i}"] for i in range(3)]
    angles = [[similarity.shape_angle(a, b) for b in views] for a in views]
    check("three_views", "angular_matrix", angles, atol=1e-7)  # arccos near 1
    consensus = fit_hub(views).consensus
    check("three_views", "gpa/consensus_gram_trace", np.sum(consensus**2))
