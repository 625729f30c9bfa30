import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment import solve
from socialjepa_jax.alignment.moments import Moments
from socialjepa_jax.errors import InputError
from tests.alignment.golden import CASES, GOLDEN, UNIQUE, check, load
from tests.alignment.synthetic import pairs


def test_noise_free_latent_state_model_recovers_its_matrix():
    """Eq. (12): z1 = A1 u, z2 = A2 u gives W* = A2 A1^-1, and kappa(W*) <= kappa(A2) kappa(A1)."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(500, 8))
    a1, a2 = rng.normal(size=(2, 8, 8))
    linear_map = alignment.fit(u @ a1.T, u @ a2.T, method="lstsq", standardize="center")
    np.testing.assert_allclose(linear_map.w, a2 @ np.linalg.inv(a1), rtol=1e-8, atol=1e-8)
    assert linear_map.kappa <= np.linalg.cond(a2) * np.linalg.cond(a1)
    np.testing.assert_allclose(linear_map.w_inv @ linear_map.w, np.eye(8), atol=1e-9)


def test_procrustes_finds_a_reflection_with_scale_and_offset():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 5))
    q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    q[0] *= -np.sign(np.linalg.det(q))
    y = 3 * x @ q.T + 10
    linear_map = alignment.fit(x, y, method="procrustes", standardize="center", scale=True)
    np.testing.assert_allclose(linear_map.w, 3 * q, atol=1e-9)
    np.testing.assert_allclose(linear_map.forward(x), y)
    np.testing.assert_allclose(linear_map.backward(y, "regression"), x)


def test_fewer_pairs_than_features_give_the_minimum_norm_solution():
    x, y = pairs(n=10, d=30, e=20)
    linear_map = alignment.fit(x, y, method="lstsq", standardize="center")
    np.testing.assert_allclose(linear_map.forward(x), y)
    expected = np.linalg.pinv(x - x.mean(0)) @ (y - y.mean(0))
    np.testing.assert_allclose(linear_map.w.T, expected, atol=1e-9)
    assert linear_map.used_pinv
    assert linear_map.rank == 9
    assert linear_map.kappa > 1e12 > linear_map.kappa_effective


def test_zero_ridge_is_least_squares_and_small_ridge_tends_to_it():
    x, y = pairs()
    least = alignment.fit(x, y, method="lstsq")
    np.testing.assert_array_equal(alignment.fit(x, y, ridge=0.0).w, least.w)
    np.testing.assert_allclose(alignment.fit(x, y, ridge=1e-6).w, least.w, atol=1e-7)


def test_reduced_rank_regression_beats_every_other_map_of_its_rank():
    x, y = pairs(n=200, d=8, e=7, noise=3.0)
    linear_map = alignment.fit(x, y, method="reduced_rank", rank=3, ridge=0.0)
    full = alignment.fit(x, y, method="lstsq")
    zx, zy = full.standardize_x(x), full.standardize_y(y)
    assert np.linalg.matrix_rank(linear_map.w) == 3
    u, s, vt = np.linalg.svd(full.w)
    truncated = (u[:, :3] * s[:3]) @ vt[:3]
    loss = lambda w: np.sum((zy - zx @ w.T) ** 2)  # noqa: E731
    assert loss(linear_map.w) < loss(truncated)
    u, s, vt = np.linalg.svd(zx @ full.w.T, full_matrices=False)  # Eckart-Young on fitted values
    best = np.sum((zy - zx @ full.w.T) ** 2) + np.sum(s[3:] ** 2)
    np.testing.assert_allclose(loss(linear_map.w), best)


def test_robust_fit_ignores_mismatched_pairs():
    x, y = pairs(n=2500, d=10, e=10)
    (x, clean_x), (y, clean_y) = np.split(x, [2000]), np.split(y, [2000])
    wrong = np.arange(400)
    mixed = y.copy()
    mixed[wrong] = np.roll(y[wrong], 1, axis=0)
    plain = alignment.fit(x, mixed)
    robust = alignment.fit(x, mixed, method="robust", trim=0.25)
    assert alignment.r2(plain, clean_x, clean_y) < 0.98 < alignment.r2(robust, clean_x, clean_y)
    assert robust.n_train == 1500


def test_auto_ridge_is_the_best_of_brute_force_folds():
    x, y = pairs(n=60, d=12, e=5, noise=4.0)
    groups = np.repeat(np.arange(20), 3)
    fold = solve.group_folds(groups, 10)
    lambdas = 60 * np.logspace(-8, 1, 37)
    errors = np.zeros(37)
    for f in range(10):
        for i, lam in enumerate(lambdas):
            held = fold == f
            part = alignment.fit(x[~held], y[~held], ridge=lam)
            residual = part.standardize_y(y[held]) - part.forward(
                part.standardize_x(x[held]), standardized=True
            )
            errors[i] += np.sum(residual**2)
    assert alignment.fit(x, y, ridge="auto", groups=groups).ridge == lambdas[errors.argmin()]
    assert 0 < errors.argmin() < 36
    folds = [Moments.of(x[fold == f], y[fold == f]) for f in range(10)]
    found = solve.ridge_by_folds(folds, lambdas, "full")
    np.testing.assert_allclose(found, errors, rtol=1e-9)


def test_large_offsets_and_constant_features_do_no_harm():
    x, y = pairs(d=6, e=6)
    x[:, 2], y[:, 4] = 5.1, -7.3
    plain = alignment.fit(x, y)
    shifted = alignment.fit(x + 1e6, y - 1e6)
    np.testing.assert_allclose(shifted.w, plain.w, atol=1e-6)
    assert plain.x_scale[2] == plain.y_scale[4] == 1.0
    assert np.isfinite(alignment.evaluate(plain, x, y)["r2_uniform"])


def test_order_of_the_rows_does_not_matter():
    x, y = pairs()
    order = np.random.default_rng(3).permutation(len(x))
    np.testing.assert_allclose(
        alignment.fit(x[order], y[order]).w, alignment.fit(x, y).w, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method='magic'"),
        ({"ridge": -1.0}, "ridge=-1.0"),
        ({"ridge": "best"}, "ridge='best'"),
        ({"standardize": "none"}, "standardize='none'"),
        ({"kappa_max": 1.0}, "kappa_max"),
        ({"method": "reduced_rank"}, "rank=None"),
        ({"method": "reduced_rank", "rank": 7}, "rank=7"),
        ({"method": "robust", "trim": 0.9}, "trim=0.9"),
        ({"ridge": "auto", "groups": np.zeros(300)}, "groups must hold"),
        ({"ridge": "auto", "groups": np.zeros(3)}, "groups has shape"),
    ],
)
def test_options_that_cannot_work_are_named(options, message):
    with pytest.raises(InputError, match=message):
        alignment.fit(*pairs(), **options)


def test_latents_that_cannot_work_are_named():
    x, y = pairs()
    bad = x.copy()
    bad[7, 2] = np.nan
    for arrays, message in [
        ((bad, y), "x is not finite at row 7, column 2"),
        ((x[:-1], y), "x has 299 rows but y has 300"),
        ((x[0], y), "x must be samples x features"),
        ((x[:1], y[:1]), "at least 2 pairs"),
        ((x, y.astype(complex)), "y must hold real numbers"),
        ((x, y.astype(object)), "y must hold real numbers"),
    ]:
        with pytest.raises(InputError, match=message):
            alignment.fit(*arrays)


@pytest.mark.parametrize("case", CASES)
def test_the_standardisation_matches(case):
    x, y = load(case)[:2]
    linear_map = alignment.fit(x, y)
    for ours, name in [("x_mean", "mu_x"), ("x_scale", "sd_x"), ("y_mean", "mu_y")]:
        np.testing.assert_allclose(getattr(linear_map, ours), GOLDEN[f"{case}/std/{name}"])


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


def test_features_that_vary_too_little_are_named():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 2))
    x[:, 1] *= 1e-13
    x[:, 2] = 0.1  # constant: nothing to say
    y[:, 0] = 1e9 + 1e-4 * rng.integers(0, 2, 50)
    with pytest.warns(UserWarning, match="count as constant") as caught:
        found = alignment.fit(x, y)
    assert [str(w.message).split(";")[0] for w in caught] == [
        "x: 1 of 4 features vary by less than 1e-12 of max(1, |mean|) and count as constant "
        "(features 1)",
        "y: 1 of 2 features vary by less than 1e-12 of max(1, |mean|) and count as constant "
        "(features 0)",
    ]
    np.testing.assert_array_equal(found.x_scale[1:3], 1)
    alignment.fit(x / [1, 1e-13, 1, 1], y[:, 1:])  # neither this nor the next warns
    alignment.fit(x, y, standardize="center")
