import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from socialjepa_jax import alignment, collaboration
from socialjepa_jax.collaboration.scoring import score_probes
from socialjepa_jax.errors import InputError


def clusters(seed, n=400, d=6, classes=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    centres = np.random.default_rng(99).normal(size=(classes, d))
    return 2 * centres[labels] + rng.normal(size=(n, d)) * np.arange(1, d + 1) + 5, labels


def test_logistic_probe_is_that_of_another_library():
    z, labels = clusters(0)
    probe = collaboration.fit_logistic(z, labels, 3, strength=2.0)
    scaled = (z - z.mean(0)) / z.std(0)
    theirs = LogisticRegression(C=0.5, tol=1e-8, max_iter=2000).fit(scaled, labels)
    expected = theirs.predict_proba(scaled)
    logits = probe.logits(z)
    found = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(found / found.sum(1, keepdims=True), expected, atol=2e-3)
    np.testing.assert_array_equal(probe.predict(z), theirs.predict(scaled))


def test_constant_features_and_absent_classes_do_no_harm():
    z, labels = clusters(1)
    z[:, 2] = 7.0
    probe = collaboration.fit_logistic(z, labels, 4)
    assert np.isfinite(probe.logits(z)).all()
    assert not (probe.predict(z) == 3).any()
    with pytest.raises(InputError, match="400 rows but there are 399"):
        collaboration.fit_logistic(z, labels[1:], 4)


def test_scores_stand_between_chance_and_oracle():
    (x, labels), rng = clusters(2, n=900), np.random.default_rng(3)
    y = x @ rng.normal(size=(6, 6)) + 0.01 * rng.normal(size=x.shape)
    names = np.array(["cat", "dog", "owl"])[labels]
    linear_map = alignment.fit(x[:600], y[:600])
    scores = score_probes(
        linear_map, (x[:600], y[:600], names[:600]), (x[600:], y[600:], names[600:])
    )
    assert list(scores) == [
        "own", "raw", "regression", "inverse", "procrustes", "oracle", "frequent"
    ]  # fmt: skip
    for kind in ("logistic", "ridge"):
        assert scores["inverse"][kind] > scores["own"][kind] - 0.05 > scores["frequent"][kind]
        assert scores["raw"][kind] < scores["inverse"][kind]
    wide = np.concatenate([y, y], axis=1)
    wider = score_probes(
        alignment.fit(x, wide), (x[:600], wide[:600], names[:600]), (x, wide, names)
    )
    assert "raw" not in wider
    with pytest.raises(InputError, match="at least 2 classes"):
        score_probes(linear_map, (x, y, names == ""), (x, y, names))
