from pathlib import Path

import numpy as np
import pytest

from socialjepa_jax import alignment, collaboration
from socialjepa_jax.errors import InputError

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "alignment.npz")
CASES = ["full_rank", "noisy", "rank_deficient", "rect_up_16_40", "independent"]


@pytest.mark.parametrize("case", CASES)
def test_transfer_matches_the_golden_logits(case):
    """The golden probe acts on standardised latents; fold its statistics in and out."""
    x, y, y_test = (GOLDEN[f"{case}/in/{name}"] for name in ("X_tr", "Y_tr", "Y_te"))
    linear_map = alignment.fit(x, y, method="lstsq", kappa_max=1e8)
    a = GOLDEN[f"{case}/probe/a"]
    weight = a / linear_map.x_scale[:, None]
    probe = collaboration.Probe(weight, -linear_map.x_mean @ weight)
    carried = collaboration.transfer_probe(probe, linear_map)
    expected = GOLDEN[f"{case}/probe/logits2_ols"]
    np.testing.assert_allclose(carried.logits(y_test), expected, rtol=1e-6, atol=1e-6)
    a2 = carried.weight * linear_map.y_scale[:, None]
    np.testing.assert_allclose(a2, GOLDEN[f"{case}/probe/a2_ols"], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["inverse", "regression", "procrustes"])
def test_transferred_logits_are_those_of_latents_carried_back(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)) + 4
    y = x @ rng.normal(size=(5, 7)) + rng.normal(size=(200, 7))
    linear_map = alignment.fit(x, y)
    probe = collaboration.fit_probe(x, np.arange(200) % 3, 3)
    carried = collaboration.transfer_probe(probe, linear_map, kind=kind)
    expected = probe.logits(linear_map.backward(y, kind))
    np.testing.assert_allclose(carried.logits(y), expected, rtol=1e-9, atol=1e-9)


def clusters(rng, n=600, d=10, classes=4):
    labels = rng.integers(0, classes, n)
    return 3 * rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d)) + 5, labels


def test_a_probe_survives_an_invertible_change_of_coordinates():
    rng = np.random.default_rng(1)
    x, labels = clusters(rng)
    y = x @ rng.normal(size=(10, 10)) + 7
    probe = collaboration.fit_probe(x[:400], labels[:400], 4)
    carried = collaboration.transfer_probe(probe, alignment.fit(x[:400], y[:400], method="lstsq"))
    own = collaboration.accuracy(probe, x[400:], labels[400:])
    assert own > 0.95
    assert collaboration.accuracy(carried, y[400:], labels[400:]) == own


def test_ridge_probe_matches_its_normal_equations():
    rng = np.random.default_rng(2)
    x, labels = clusters(rng, n=90)
    probe = collaboration.fit_probe(x, labels, 4, ridge=2.0)
    z = (x - x.mean(0)) / x.std(0)
    one_hot = np.eye(4)[labels]
    a = np.linalg.solve(z.T @ z + 2 * np.eye(10), z.T @ (one_hot - one_hot.mean(0)))
    np.testing.assert_allclose(probe.logits(x), z @ a + one_hot.mean(0), rtol=1e-9, atol=1e-12)


def test_bad_probes_and_labels_are_named():
    rng = np.random.default_rng(3)
    x, labels = clusters(rng, n=50)
    probe = collaboration.fit_probe(x, labels, 4)
    with pytest.raises(InputError, match=r"labels must be in \[0, 2\)"):
        collaboration.fit_probe(x, labels, 2)
    with pytest.raises(InputError, match="labels must be integers"):
        collaboration.fit_probe(x, labels.astype(float), 4)
    with pytest.raises(InputError, match="50 rows but there are 49"):
        collaboration.accuracy(probe, x, labels[1:])
    with pytest.raises(InputError, match="a probe's weight"):
        collaboration.Probe(np.eye(3), np.zeros(2))
    with pytest.raises(InputError, match="probe reads 10 features, the map 4"):
        collaboration.transfer_probe(probe, alignment.fit(x[:, :4], x))
