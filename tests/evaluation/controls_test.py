"""Controls against scikit-learn, closed forms and their defining properties."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from socialjepa_jax.evaluation import controls


@pytest.mark.parametrize("shape", [(40, 6, 7, 1), (60, 3, 4, 2)])  # more pixels, more pictures
def test_pixel_pca_spans_what_sklearn_finds(shape):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, shape, dtype=np.uint8)
    train = np.arange(0, len(images), 2)
    flat = images.reshape(len(images), -1) / 255.0
    expected = PCA(5, svd_solver="full").fit(flat[train]).transform(flat)
    ours = controls.pixel_pca(images, train, 5)
    np.testing.assert_allclose(ours @ ours.T, expected @ expected.T, atol=1e-4)  # up to rotation
    # No column is a component: each holds a share of them all.
    spread = ours.std(axis=0)
    assert spread.max() / spread.min() < expected.std(axis=0).max() / expected.std(axis=0).min()


def test_pixel_pca_reads_in_blocks_and_does_not_turn_with_the_signs_of_eigenvectors(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (60, 6, 7, 1), dtype=np.uint8)
    whole, eigh = controls.pixel_pca(images, np.arange(40), 5), np.linalg.eigh

    def turned(gram):
        values, vectors = eigh(gram)
        return values, vectors * np.where(np.arange(len(values)) % 2, 1, -1)

    monkeypatch.setattr(np.linalg, "eigh", turned)
    monkeypatch.setattr(controls, "_BLOCK", 7)
    np.testing.assert_allclose(controls.pixel_pca(images, np.arange(40), 5), whole, atol=1e-5)


def test_pixel_pca_keeps_no_more_than_there_is():
    images = np.random.default_rng(0).integers(0, 256, (9, 4, 4, 1), dtype=np.uint8)
    assert controls.pixel_pca(images, np.arange(6), 32).shape == (9, 5)


@pytest.mark.parametrize("sorted_by", [False, True])
def test_thinning_misses_no_level_of_a_factor_that_rows_are_sorted_by(sorted_by, monkeypatch):
    """Every third row, or the first third of the rows, would see a single lighting."""
    monkeypatch.setattr(controls, "_PCA_ROWS", 60)
    rng = np.random.default_rng(0)
    lighting = np.repeat([0, 1, 2], 60) if sorted_by else np.tile([0, 1, 2], 60)
    patterns = rng.integers(0, 256, (3, 4, 4, 1), dtype=np.uint8)
    latents = controls.pixel_pca(patterns[lighting], np.arange(180), 8)
    means = np.stack([latents[lighting == level].mean(axis=0) for level in range(3)])
    assert np.linalg.matrix_rank(means - means.mean(axis=0), tol=1e-3) == 2


def test_one_hot():
    np.testing.assert_array_equal(controls.one_hot(np.array([7, 3, 7])), [[0, 1], [1, 0], [0, 1]])


def test_partial_out_equals_ridge_residuals():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(80, 6)), rng.normal(size=(80, 3))
    train = np.arange(50)
    model = Ridge(alpha=1.0).fit(x[train], z[train])
    np.testing.assert_allclose(
        controls.partial_out(z, x, train, ridge=1.0), z - model.predict(x), atol=1e-6
    )


def test_shuffled_pairs_stay_in_cell_and_part_and_move():
    rng = np.random.default_rng(2)
    cells = rng.integers(0, 4, 100)
    parts = (np.arange(0, 70), np.arange(70, 100))
    pairing = controls.shuffled_within(cells, parts, rng)
    assert sorted(pairing) == list(range(100))
    np.testing.assert_array_equal(cells[pairing], cells)
    assert set(pairing[:70]) == set(range(70))
    assert (pairing != np.arange(100)).all()


def test_random_projections_are_directions_of_pixel_space():
    images = np.random.default_rng(3).integers(0, 256, (50, 4, 5, 3), dtype=np.uint8)
    found = controls.random_projection(images, 4, seed=1)
    directions = np.random.default_rng(1).normal(size=(60, 4)) / 60**0.5
    expected = images.reshape(50, -1) / 255.0 @ directions
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found, controls.random_projection(images, 4, seed=1))
    assert np.abs(found - controls.random_projection(images, 4, seed=2)).max() > 0.1
    assert found.dtype == np.float32


@pytest.mark.parametrize(("rows", "noise"), [(40, 0.5), (150, 2.0)])  # more pixels, more images
def test_pixel_readouts_are_ridge_regressions_whose_strength_generalises(rows, noise):
    """By generalised cross-validation written out: ||y - H y||^2 / tr(I - H)^2."""
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (rows + 30, 4, 5, 3), dtype=np.uint8)
    pixels = images.reshape(len(images), -1) / 255.0
    states = pixels @ rng.normal(size=(60, 2)) + noise * rng.normal(size=(len(images), 2))
    train, test = np.arange(rows), np.arange(rows, rows + 30)
    found = controls.pixel_readout(images, states, train, test)
    centred = pixels[train] - pixels[train].mean(0)
    gram, constant = centred @ centred.T, np.full((rows, rows), 1 / rows)
    ladder = np.linalg.eigvalsh(gram).max() * np.logspace(-8, 0, 33)

    def score(ridge):
        hat = constant + gram @ np.linalg.inv(gram + ridge * np.eye(rows))
        left = states[train] - hat @ states[train]
        return np.square(left).sum() / (rows - np.trace(hat)) ** 2

    best = min(ladder, key=score)
    assert ladder[0] < best < ladder[-1]
    expected = Ridge(alpha=best).fit(pixels[train], states[train]).predict(pixels[test])
    np.testing.assert_allclose(found, expected, atol=1e-6)
