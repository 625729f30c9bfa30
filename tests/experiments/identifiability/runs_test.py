"""Learners of the identifiability experiments: every argument reaches the field that it names."""

import dataclasses

import pytest

from experiments.identifiability import runs, sweep
from socialjepa_jax.objectives.pairs import Pairs


@pytest.mark.parametrize("preset", sweep.PRESETS)
@pytest.mark.parametrize(("regularizer", "kernel"), [("sigreg", "fixed"), ("infonce", "scaled")])
def test_a_learner_has_the_stated_terms(preset, regularizer, kernel):
    budget, conventions = runs.BUDGETS["smoke"], sweep.PRESETS[preset]
    learner = runs.learner(budget, regularizer, kernel=kernel, preset=conventions)
    stated = {
        "regularizer": regularizer,
        "convention": conventions.convention,
        "flatten": conventions.flatten,
        "num_slices": budget.num_slices,
        "quadrature": conventions.quadrature,
        "kernel": kernel,
    }
    usual = {field.name: field.default for field in dataclasses.fields(Pairs)}
    for name, default in usual.items():
        if name != "encoder":
            assert getattr(learner, name) == stated.get(name, default), name
