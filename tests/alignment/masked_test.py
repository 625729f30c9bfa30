"""Masked entries hold no data: every function that takes arrays refuses them by name."""

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment.moments import Moments
from socialjepa_jax.alignment.study.inputs import match_ids
from socialjepa_jax.alignment.study.settings import Settings
from socialjepa_jax.alignment.study.spaces import compare_spaces
from socialjepa_jax.alignment.study.study import run_study
from socialjepa_jax.collaboration.probe import fit_probe
from socialjepa_jax.data.base import ObservationTable
from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability.metrics import fit_affine

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2))
LABELS = np.arange(40) % 8
MAP = alignment.fit(X, Y)
M = np.ma.masked_greater(X, 1.0)
GROUPS = np.ma.masked_equal(LABELS, 3)

CALLS = {
    "fit x": (lambda: alignment.fit(M, Y), "x has"),
    "fit y": (lambda: alignment.fit(Y, M), "y has"),
    "fit groups": (lambda: alignment.fit(X, Y, ridge="auto", groups=GROUPS), "groups has"),
    "rows of a list": (lambda: alignment.fit(list(M), Y), "x has"),
    "choose_ridge": (lambda: alignment.choose_ridge(M, Y), "x has"),
    "Moments.of": (lambda: Moments.of(X, M), "y has"),
    "evaluate x": (lambda: alignment.evaluate(MAP, M, Y), "x_test has"),
    "evaluate groups": (lambda: alignment.evaluate(MAP, X, Y, groups=GROUPS), "groups has"),
    "r2": (lambda: alignment.r2(MAP, M, Y), "x_test has"),
    "prediction_r2": (lambda: alignment.prediction_r2(X, M, np.ones(3)), "y_test has"),
    "noise_ceiling": (lambda: alignment.noise_ceiling(X, GROUPS), "states has"),
    "forward": (lambda: MAP.forward(M), "x has"),
    "backward": (lambda: MAP.backward(M[:, :2]), "y has"),
    "fit_hub": (lambda: alignment.fit_hub([X, M]), r"spaces\[1\] has"),
    "cka": (lambda: alignment.cka(X, M), "y has"),
    "dsc": (lambda: alignment.dsc(M, X), "x has"),
    "mutual_knn": (lambda: alignment.mutual_knn(X, M), "y has"),
    "cknna": (lambda: alignment.cknna(M, X), "x has"),
    "retrieval": (lambda: alignment.retrieval(X, M), "gallery has"),
    "effective_rank": (lambda: alignment.effective_rank(M), "z has"),
    "bootstrap": (lambda: alignment.bootstrap(MAP, X, Y, groups=GROUPS), "groups has"),
    "permutation_null": (
        lambda: alignment.permutation_null(
            lambda *parts: {"r2": 0.0}, (X, Y), (X, Y), groups=(GROUPS, LABELS)
        ),
        "groups has",
    ),
    "run_study": (lambda: run_study(X, Y, Settings(), strata=GROUPS), "strata has"),
    "compare_spaces": (lambda: compare_spaces([X, M], Settings()), "has"),
    "match_ids": (lambda: match_ids([GROUPS, LABELS], ["a.npy", "b.npy"]), "a.npy has"),
    "fit_probe": (lambda: fit_probe(X, GROUPS, 8), "labels has"),
    "identifiability": (lambda: fit_affine(X, M), "y has"),
    "images": (
        lambda: ObservationTable(
            np.ma.masked_equal(np.zeros((1, 2, 2, 1), np.uint8), 0),
            np.zeros((1, 3), int),
            ("category", "instance", "azimuth"),
            ("cup",),
        ),
        "images has",
    ),
    "factors": (
        lambda: ObservationTable(
            np.zeros((1, 2, 2, 1), np.uint8),
            np.ma.masked_equal([[0, 1, 0]], 1),
            ("category", "instance", "azimuth"),
            ("cup",),
        ),
        "factors has",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_masked_entries_are_refused(name):
    call, message = CALLS[name]
    with pytest.raises(InputError, match=rf"{message} \d+ masked entries"):
        call()


def test_an_array_without_masked_entries_is_its_data():
    found = alignment.fit(np.ma.array(X), np.ma.array(Y, mask=False))
    np.testing.assert_array_equal(found.w, MAP.w)
