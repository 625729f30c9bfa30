"""Reference values in float64 (SciPy, scikit-learn, long double), and how they are compared."""

from pathlib import Path

import numpy as np

from socialjepa_jax import alignment

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "alignment.npz")
CASES = sorted({name.split("/")[0] for name in GOLDEN.files} - {"three_views"})
# The reference inverse drops singular values up to 1e-8 s1.
METHODS = {
    "ols": {"method": "lstsq", "kappa_max": 1e8},
    "ridge1": {"ridge": 1.0, "kappa_max": 1e8},
    "ridge100": {"ridge": 100.0, "kappa_max": 1e8},
    "proc": {"method": "procrustes", "kappa_max": 1e8},
}
# W of Procrustes is not unique if the cross moment is singular.
UNIQUE = [case for case in CASES if case != "rank_deficient"]


def load(case):
    return [GOLDEN[f"{case}/in/{name}"] for name in ("X_tr", "Y_tr", "X_te", "Y_te")]


def check(case, name, value, **tolerance):
    expected = GOLDEN[f"{case}/{name}"]
    tolerance = {"rtol": 1e-6, "atol": 1e-9, **tolerance}
    np.testing.assert_allclose(value, expected, err_msg=f"{case}/{name}", **tolerance)


def standardized(case):
    x, y, x_test, y_test = load(case)
    linear_map = alignment.fit(x, y, method="lstsq")
    return linear_map, *linear_map.standardize(x_test, y_test)
