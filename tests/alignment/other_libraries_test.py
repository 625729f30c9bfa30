"""Maps and metrics of difficult data, compared with NumPy, SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy import linalg, stats
from scipy.spatial.distance import cdist, pdist
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from socialjepa_jax import alignment

N, TEST = 240, 120


def world(d, e, seed, noise=0.5, n=N + TEST):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, x @ rng.normal(size=(d, e)) + noise * rng.normal(size=(n, e))


def duplicated():
    rng = np.random.default_rng(5)
    x = rng.integers(-2, 3, (N + TEST, 4)).astype(float)
    x[1::2] = x[::2]
    return x, x @ rng.integers(-1, 2, (4, 5)) + rng.integers(0, 2, (N + TEST, 5))


def with_constants():
    x, y = world(7, 6, 6)
    x[:, 2], y[:, 4] = 5.1, -7.3
    return x.astype(np.float32), y.astype(np.float32)


def offset(size):
    x, y = world(6, 8, 7)
    return (x + size).astype(np.float32), (y - size).astype(np.float32)


def reflected():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(N + TEST, 6))
    q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    q[0] *= -np.sign(np.linalg.det(q))
    return x, 4 * x @ q.T - 3 + 0.1 * rng.normal(size=x.shape)


def conditioned(kappa):
    rng = np.random.default_rng(9)
    x = rng.normal(size=(N + TEST, 8))
    u, v = (np.linalg.qr(rng.normal(size=(8, 8)))[0] for _ in range(2))
    return x, x @ (u * np.logspace(0, -np.log10(kappa), 8)) @ v.T


def pairs(name):
    return {
        "wider": lambda: world(9, 20, 1),
        "narrower": lambda: world(20, 9, 2),
        "duplicated rows, tied distances": duplicated,
        "constant features": with_constants,
        "means of 1e3 in float32": lambda: offset(1e3),
        "means of 1e6 in float32": lambda: offset(1e6),
        "reflection with scale": reflected,
        "condition 1e4": lambda: conditioned(1e4),
        "condition 1e5": lambda: conditioned(1e5),
        "identical": lambda: (world(6, 6, 3)[0],) * 2,
        "independent": lambda: (world(6, 6, 3)[0], world(6, 6, 4)[0]),
    }[name]()


NAMES = [
    "wider",
    "narrower",
    "duplicated rows, tied distances",
    "constant features",
    "means of 1e3 in float32",
    "means of 1e6 in float32",
    "reflection with scale",
    "condition 1e4",
    "condition 1e5",
    "identical",
    "independent",
]


def split(name):
    x, y = pairs(name)
    return x[:N], y[:N], x[N:], y[N:]


def standardized(train, test):
    scaler = StandardScaler().fit(train.astype(np.float64))
    scaler.scale_ = np.where(np.ptp(train, axis=0) == 0, 1.0, scaler.scale_)
    return scaler.transform(train.astype(np.float64)), scaler.transform(test.astype(np.float64))


def overlap(a, b, k):
    shares = []
    near = []
    for z in (a, b):
        d = cdist(z, z)
        np.fill_diagonal(d, np.inf)
        near.append(np.argsort(d, axis=1)[:, :k])
    for first, second in zip(*near):
        shares.append(len(set(first) & set(second)) / k)
    return np.mean(shares)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["ridge", "lstsq", "procrustes"])
def test_maps_and_metrics_are_those_of_other_libraries(name, method):
    x, y, x_test, y_test = split(name)
    linear_map = alignment.fit(x, y, method=method, ridge=2.0)
    (zx, tx), (zy, ty) = standardized(x, x_test), standardized(y, y_test)
    if method == "ridge":
        w = Ridge(2.0, fit_intercept=False, solver="svd").fit(zx, zy).coef_
    elif method == "lstsq":
        w = linalg.lstsq(zx, zy, cond=1e-10)[0].T
    else:
        u, _, vt = linalg.svd(zy.T @ zx, full_matrices=False)
        w = u @ vt
    if not (method == "procrustes" and name == "constant features"):  # W is free there
        np.testing.assert_allclose(linear_map.w, w, rtol=1e-6, atol=1e-8)
    w = linear_map.w
    found = alignment.evaluate(linear_map, x_test, y_test, back="forward")
    r2 = r2_score(ty[:, np.ptp(ty, axis=0) > 0], (tx @ w.T)[:, np.ptp(ty, axis=0) > 0],
                  multioutput="variance_weighted")  # fmt: skip
    if name != "constant features" or method != "procrustes":  # where W predicts the constants
        np.testing.assert_allclose(found["r2"], r2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found["mse"], np.mean((ty - tx @ w.T) ** 2), rtol=1e-6, atol=1e-15)
    if "tied" not in name:
        dsc = stats.spearmanr(pdist(tx @ w.T), pdist(ty)).statistic
        np.testing.assert_allclose(found["dsc"], dsc, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found["nos@5"], 1 - overlap(tx @ w.T, ty, 5), atol=1e-9)
    s = linalg.svdvals(w)
    if s[-1] > 1e-9 * s[0]:
        np.testing.assert_allclose(found["kappa"], s[0] / s[-1], rtol=1e-6)


@pytest.mark.parametrize("name", ["condition 1e4", "condition 1e5"])
def test_badly_conditioned_maps_invert_what_they_map(name):
    x, y, x_test, _ = split(name)
    linear_map = alignment.fit(x, y, method="lstsq")
    assert not linear_map.used_pinv
    carried = linear_map.backward(linear_map.forward(x_test))
    np.testing.assert_allclose(carried, x_test, atol=1e-8)


@pytest.mark.parametrize(("d", "e"), [(30, 30), (30, 12), (12, 30)])
def test_fewer_pairs_than_features_predict_like_the_dual(d, e):
    x, y = world(d, e, 11, n=20)
    linear_map = alignment.fit(x[:10], y[:10], ridge=3.0)
    (zx, tx), (zy, _) = standardized(x[:10], x[10:]), standardized(y[:10], y[10:])
    dual = tx @ zx.T @ np.linalg.solve(zx @ zx.T + 3 * np.eye(10), zy)
    np.testing.assert_allclose(tx @ linear_map.w.T, dual, rtol=1e-8, atol=1e-10)


def test_identical_spaces_are_one_and_independent_ones_are_null():
    x, y, x_test, y_test = split("identical")
    same = alignment.evaluate(alignment.fit(x, y, method="lstsq"), x_test, y_test)
    for key in ("r2", "r2_uniform", "r2_raw", "dsc", "cka", "cka_debiased", "kappa"):
        np.testing.assert_allclose(same[key], 1.0, rtol=1e-9)
    assert same["nos@1"] == same["nos@50"] == 0
    np.testing.assert_allclose([same["procrustes_error"], same["orthogonality"]], 0, atol=1e-9)
    x, y, x_test, y_test = split("independent")
    apart = alignment.evaluate(alignment.fit(x, y), x_test, y_test, back="none")
    assert apart["r2"] < 0.02
    assert abs(apart["dsc"]) < 0.05 and abs(apart["cka_debiased"]) < 0.05
    assert abs(alignment.chance_corrected_nos(apart["nos@10"], 10, TEST) - 1) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_a_permutation_of_the_rows_changes_nothing(name):
    x, y, x_test, y_test = split(name)
    rng = np.random.default_rng(12)
    first, second = rng.permutation(N), rng.permutation(TEST)
    plain = alignment.evaluate(alignment.fit(x, y, ridge=2.0), x_test, y_test)
    moved = alignment.evaluate(
        alignment.fit(x[first], y[first], ridge=2.0), x_test[second], y_test[second]
    )
    for metrics in (plain, moved):  # of a singular map only rounding makes kappa finite
        metrics["kappa"] = 1 / metrics["kappa"]
    for key, value in plain.items():
        loose = "nos@" in key and "tied" in name  # the lowest index is another row then
        np.testing.assert_allclose(moved[key], value, rtol=0.3 if loose else 1e-6, atol=1e-9)
