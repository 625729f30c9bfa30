"""Every closed-form number against float64 reference values (SciPy, scikit-learn, long double)."""

from pathlib import Path

import numpy as np
import pytest

from socialjepa_jax import alignment

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "alignment.npz")
CASES = sorted({name.split("/")[0] for name in GOLDEN.files} - {"three_views"})
# The golden inverse drops singular values up to 1e-8 s1.
METHODS = {
    "ols": {"method": "lstsq", "kappa_max": 1e8},
    "ridge1": {"ridge": 1.0, "kappa_max": 1e8},
    "ridge100": {"ridge": 100.0, "kappa_max": 1e8},
    "proc": {"method": "procrustes", "kappa_max": 1e8},
}
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


def load(case, *names):
    return [GOLDEN[f"{case}/in/{name}"] for name in names]


def is_ill_posed(case, method):
    return case == "rank_deficient" and method == "proc"  # W is not unique


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
    x, y, x_test, y_test = load(case, "X_tr", "Y_tr", "X_te", "Y_te")
    linear_map = alignment.fit(x, y, **METHODS[method])
    reference = f"{case}/{method}"
    if not is_ill_posed(case, method):
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
    x, y, x_test, y_test = load(case, "X_tr", "Y_tr", "X_te", "Y_te")
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


@pytest.mark.parametrize("case", CASES)
def test_the_standardisation_matches(case):
    x, y = load(case, "X_tr", "Y_tr")
    linear_map = alignment.fit(x, y)
    for ours, name in [("x_mean", "mu_x"), ("x_scale", "sd_x"), ("y_mean", "mu_y")]:
        np.testing.assert_allclose(getattr(linear_map, ours), GOLDEN[f"{case}/std/{name}"])
