"""Agreement at equal ranks against plain float64 NumPy, its null, and its promises.

Shape key: N samples, D and E features.
"""

import numpy as np
import pytest

from socialjepa_jax.alignment.matched import matched_rank, principal_components
from socialjepa_jax.errors import InputError

SHARED, WIDTH, ROWS = 5, 12, 400


def draw(noise=0.3, seed=0, shared=SHARED, rows=ROWS):
    """Two spaces [2 rows, 12] that share directions, of which half are training rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2 * rows, shared)) * np.linspace(3.0, 1.0, shared)
    spaces = [z @ rng.normal(size=(shared, WIDTH)) for _ in range(2)]
    spaces = [s + noise * rng.normal(size=s.shape) + 7.0 for s in spaces]
    return [part for s in spaces for part in (s[:rows], s[rows:])]


def measured(x, held_x, y, held_y, **settings):
    return matched_rank(x, y, held_x, held_y, **settings)


def components(train, rows, k):
    """Whitened components by the covariance's eigenvectors."""
    values, vectors = np.linalg.eigh(np.cov(train.T, bias=True))
    order = np.argsort(values)[::-1][:k]
    return (rows - train.mean(0)) @ vectors[:, order] / np.sqrt(values[order])


def r2_by_hand(x, held_x, y, held_y, k):
    """Least squares with an intercept between components, scored on held-out rows."""

    def designed(rows):
        return np.c_[components(x, rows, k), np.ones(len(rows))]

    target, held = components(y, y, k), components(y, held_y, k)
    weights = np.linalg.lstsq(designed(x), target, rcond=None)[0]
    error = np.square(held - designed(held_x) @ weights).sum()
    return 1 - error / np.square(held - held.mean(0)).sum()


def test_every_r2_is_that_of_least_squares_between_components():
    spaces = draw()
    found = measured(*spaces, ranks=WIDTH, shuffles=2)
    expected = [r2_by_hand(*spaces, k) for k in range(1, WIDTH + 1)]
    np.testing.assert_allclose(found.r2, expected, rtol=1e-9)
    assert found.area == pytest.approx(np.mean(expected))


def test_correlations_are_those_of_the_fitted_variates_on_other_rows():
    x, held_x, y, held_y = draw()
    found = matched_rank(x, y, held_x, held_y, ranks=WIDTH, shuffles=2)
    # Canonical variates by the generalised eigenvectors of the raw covariances.
    both = np.cov(np.c_[x, y].T)
    cxx, cyy, cxy = both[:WIDTH, :WIDTH], both[WIDTH:, WIDTH:], both[:WIDTH, WIDTH:]
    whole = np.linalg.solve(cxx, cxy) @ np.linalg.solve(cyy, cxy.T)
    values, a = np.linalg.eig(whole)
    a = a.real[:, np.argsort(values.real)[::-1]]
    b = np.linalg.solve(cyy, cxy.T) @ a
    expected = [np.corrcoef(held_x @ a[:, i], held_y @ b[:, i])[0, 1] for i in range(WIDTH)]
    np.testing.assert_allclose(found.correlations, expected, rtol=1e-6)


def test_shared_directions_are_counted_and_no_others():
    found = measured(*draw())
    assert found.dimensions == SHARED
    assert np.sum(found.r2 > found.null_r2) >= SHARED
    x, held_x, _, _ = draw()
    _, _, y, held_y = draw(seed=1)  # of other states
    strangers = matched_rank(x, y, held_x, held_y)
    assert strangers.dimensions == 0
    assert strangers.area < 0.01 and np.all(np.abs(strangers.null_r2) < 0.1)


def test_the_null_counts_a_false_direction_in_one_comparison_of_twenty():
    counts = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, held_x, y, held_y = (rng.normal(size=(60, 3)) for _ in range(4))
        counts.append(matched_rank(x, y, held_x, held_y, ranks=3, seed=seed).dimensions > 0)
    assert np.mean(counts) <= 0.15


@pytest.mark.parametrize("turned", [0, 2])
def test_neither_units_nor_a_rotation_matter(turned):
    spaces = draw()
    q = np.linalg.qr(np.random.default_rng(3).normal(size=(WIDTH, WIDTH)))[0]
    moved = [5.0 * s @ q - 2.0 if i // 2 == turned // 2 else s for i, s in enumerate(spaces)]
    ours, theirs = measured(*spaces, shuffles=2), measured(*moved, shuffles=2)
    np.testing.assert_allclose(theirs.r2, ours.r2, rtol=1e-8)
    np.testing.assert_allclose(theirs.correlations, ours.correlations, atol=1e-8)


def test_a_space_of_few_directions_is_not_rewarded():
    """Identical spaces of rank 3 agree in 3 of 6 directions: R2(6) is one half."""
    z = draw(noise=0.0, shared=3)
    found = matched_rank(z[0], z[0], z[1], z[1], ranks=6, shuffles=2)
    np.testing.assert_allclose(found.r2, [1, 1, 1, 3 / 4, 3 / 5, 3 / 6], atol=1e-9)
    assert len(found.correlations) == 3 == found.dimensions


def test_components_are_white_on_the_rows_they_were_fitted_on():
    x, held_x, _, _ = draw()
    fitted = principal_components(x, 4)
    np.testing.assert_allclose(np.cov(fitted(x).T, bias=True), np.eye(4), atol=1e-10)
    expected = components(x, held_x, 4)
    np.testing.assert_allclose(np.abs(fitted(held_x)), np.abs(expected), rtol=1e-7)
    assert principal_components(x[:3], 9)(x).shape == (ROWS, 2)  # three rows span two directions


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"ranks": 0}, "ranks=0"), ({"shuffles": 0}, "shuffles=0")],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        measured(*draw(rows=20), **settings)


def test_too_few_test_rows_are_refused():
    x, held_x, y, held_y = draw(rows=20)
    with pytest.raises(InputError, match="x_test has 3 rows"):
        matched_rank(x, y, held_x[:3], held_y[:3])
