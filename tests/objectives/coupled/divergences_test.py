"""Divergences against reference numbers, SciPy, and their promises on gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from socialjepa_jax.objectives.coupled import divergences
from tests.objectives.rivals_oracle import u


def wave(phase):
    """Reference logits f32[3, 4]."""
    return u(3, 4, phase).astype(np.float32)


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.164885559), (4.0, 0.206244319)])
def test_distillation_is_the_reference(temperature, expected):
    found = divergences.distillation(wave(1), wave(2), temperature).mean()
    assert float(found) == pytest.approx(expected, abs=1e-6)


def test_mutual_learning_is_the_reference_from_both_sides():
    first, second = wave(1), wave(2)
    assert float(divergences.mutual(first, second).mean()) == pytest.approx(0.179311981, abs=1e-6)
    assert float(divergences.mutual(second, first).mean()) == pytest.approx(0.164885559, abs=1e-6)


def test_rows_are_those_of_scipy_and_stay_finite():
    p, q = 30.0 * wave(1), 30.0 * wave(3)
    expected = rel_entr(softmax(p, -1), softmax(q, -1)).sum(-1)
    np.testing.assert_allclose(divergences.kullback_leibler(p, q), expected, rtol=1e-5)
    far = jnp.array([[1e4, -1e4]])
    assert float(divergences.kullback_leibler(far, -far)[0]) == pytest.approx(2e4)


def test_no_gradient_reaches_the_teacher_or_the_peer():
    pairs = jnp.asarray(wave(1)), jnp.asarray(wave(2))
    of = jax.grad(lambda t, s: divergences.distillation(t, s, 2.0).sum(), (0, 1))(*pairs)
    assert not np.any(of[0]) and np.abs(of[1]).max() > 1e-3
    of = jax.grad(lambda own, peer: divergences.mutual(own, peer).sum(), (0, 1))(*pairs)
    assert np.abs(of[0]).max() > 1e-3 and not np.any(of[1])


def test_the_gradient_of_distillation_keeps_its_size_over_temperatures():
    """At high temperatures that of logits about their means: (s - t) / C (Hinton, eq. 4)."""
    t, s = wave(1), wave(2)
    gradient = jax.grad(lambda s: divergences.distillation(t, s, 1000.0).sum())(s)
    centred = (s - s.mean(1, keepdims=True)) - (t - t.mean(1, keepdims=True))
    np.testing.assert_allclose(gradient, centred / 4, atol=2e-3)
