import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from socialjepa_jax import alignment, collaboration
from socialjepa_jax.collaboration import scoring
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


def reference(classifier, z, labels):
    """Decision values of a probe of another library, standardised by its own latents."""
    mean, scale = z.mean(0), z.std(0)
    scaled = (z - mean) / scale
    if classifier == "logistic":
        model = LogisticRegression(C=1.0, tol=1e-8, max_iter=2000).fit(scaled, labels)
        return lambda raw: model.decision_function((raw - mean) / scale)
    target = np.eye(3)[labels]
    # The strength is that of the least error over 10 folds, of which the package tests its own.
    lam = alignment.choose_ridge(z, target)
    model = Ridge(alpha=lam).fit(scaled, target)
    return lambda raw: model.predict((raw - mean) / scale)


def worlds(widths, seed=5, n=700):
    """Latents that share some of their classes and dimensions, held-out rows with more noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    hidden = rng.normal(size=(3, 4))[labels] + rng.normal(size=(n, 4))
    noise = np.where(np.arange(n) < 400, 0.8, 1.6)[:, None]
    spaces = [
        (hidden @ rng.normal(size=(4, width)) + noise * rng.normal(size=(n, width)))
        * rng.uniform(0.1, 9, width)
        + rng.normal(size=width) * 20
        for width in widths
    ]
    return spaces, labels, np.arange(400), np.arange(400, n)


def test_scores_are_those_of_another_library_on_the_held_out_rows():
    """Every kind of probe, carried by maps that NumPy fits: fitted on the first rows alone."""
    (x, y), labels, train, test = worlds((5, 5))
    linear_map = alignment.fit(x[train], y[train], ridge=4.0)
    scores = score_probes(linear_map, *((x[rows], y[rows], labels[rows]) for rows in (train, test)))
    (fit_x, _), (fit_y, held_y) = (
        [(z[rows] - z[train].mean(0)) / z[train].std(0) for rows in (train, test)] for z in (x, y)
    )
    forward = np.linalg.solve(fit_x.T @ fit_x + 4 * np.eye(5), fit_x.T @ fit_y)
    back = np.linalg.solve(fit_y.T @ fit_y + 4 * np.eye(5), fit_y.T @ fit_x)
    u, _, vt = np.linalg.svd(forward)
    ways = {"regression": back, "inverse": np.linalg.inv(forward), "procrustes": (u @ vt).T}
    for classifier in ("logistic", "ridge"):
        own, oracle = (reference(classifier, z[train], labels[train]) for z in (x, y))
        values = {
            "own": own(x[test]),
            "raw": own(y[test]),
            **{k: own(held_y @ m * x[train].std(0) + x[train].mean(0)) for k, m in ways.items()},
            "oracle": oracle(y[test]),
        }
        expected = {k: np.mean(v.argmax(1) == labels[test]) for k, v in values.items()}
        expected["frequent"] = np.bincount(labels[test]).max() / len(test)
        assert list(scores) == list(expected)
        assert len(set(expected.values())) >= 6  # a swap would show
        for name, value in expected.items():
            # Rounding may turn one row that lies between two classes.
            assert scores[name][classifier] == pytest.approx(value, abs=1.01 / len(test)), name


def test_the_matrix_carries_the_rows_probe_to_the_columns_space():
    spaces, labels, train, test = worlds((3, 6, 4))
    maps = {
        (i, j): alignment.fit(spaces[i][train], spaces[j][train])
        for i in range(3)
        for j in range(3)
        if i != j
    }
    found = scoring.probe_matrix(spaces, maps, np.array(["a", "b", "c"])[labels], train, test)
    for i, first in enumerate(spaces):
        own = reference("logistic", first[train], labels[train])
        for j, second in enumerate(spaces):
            carried = second[test]
            if i != j:
                design = np.column_stack([second, np.ones(len(second))])
                weight = np.linalg.lstsq(design[train], first[train], rcond=None)[0]
                carried = (design @ weight)[test]
            expected = np.mean(own(carried).argmax(1) == labels[test])
            assert found[i, j] == pytest.approx(expected, abs=1.01 / len(test)), (i, j)
    assert np.abs(found - found.T).max() > 0.02  # the other direction would show
