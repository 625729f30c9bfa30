"""What angles seen modulo a turn say: against closed forms and draws."""

import numpy as np
import pytest
from scipy import integrate, stats

from experiments.motion.arm import turns
from socialjepa_jax.identifiability.hermite import hermite

U = turns.scores()


def test_the_best_guess_of_a_normal_angle_is_that_of_the_folded_density():
    """By quadrature: E[theta | w] is the mean of w + 2 pi k under the normal density."""

    def folded(w):
        angles = w + 2 * np.pi * np.arange(-4, 5)
        density = stats.norm.pdf(angles)
        return density.sum() * (density @ angles / density.sum()) ** 2

    expected = 2 * integrate.quad(folded, 0, np.pi)[0]
    joint = turns.seen(U, 0.9)
    assert joint.best_r2 == pytest.approx(expected, abs=2e-3)
    assert expected == pytest.approx(0.949, abs=1e-3)  # the paper's arm has .95
    angles = np.array([0.5, 0.5 - 2 * np.pi, -0.5, 3.1])
    guesses = joint.guess(angles)
    np.testing.assert_allclose(guesses[:3], [0.5, 0.5, -0.5], atol=0.02)
    assert 0 < guesses[3] < 2.0  # half of the angles there are beyond the turn


def test_an_angle_within_half_a_turn_has_the_spectrum_of_its_score():
    joint, rho = turns.seen(0.5 * U, 0.8), 0.8
    assert joint.best_r2 == pytest.approx(1.0, abs=1e-3)  # bins of 0.06 standard deviations
    found = np.exp(-joint.spectrum.rates[:4])
    np.testing.assert_allclose(found, rho ** np.arange(4), atol=2e-3)
    nodes = joint.spectrum.nodes / 0.5
    inner = np.abs(nodes) < 2.5
    second = joint.spectrum.functions[2][inner]
    np.testing.assert_allclose(np.abs(second), np.abs(hermite(nodes, 2)[2][inner]), atol=0.05)


def test_drawn_angles_decorrelate_as_the_spectrum_says():
    rho, rng = 0.7, np.random.default_rng(0)
    first = rng.standard_normal(200_000)
    second = rho * first + np.sqrt(1 - rho**2) * rng.standard_normal(200_000)
    joint = turns.seen(2.0 * U, rho)
    for order in (1, 2):
        table = np.full(len(joint.guesses), np.nan)
        table[~np.isnan(joint.guesses)] = joint.spectrum.functions[order]
        codes = [table[turns._bins(2.0 * z, joint.edges)] for z in (first, second)]
        expected = np.exp(-joint.spectrum.rates[order])
        assert np.corrcoef(*codes)[0, 1] == pytest.approx(expected, abs=0.01)


def test_a_shoulder_that_turns_is_lost_to_the_square_of_the_other_joint():
    """cos and sin of an angle of 2.1 radians are faster than the second polynomial of the wrist."""
    still, turning = turns.seen(0.75 * U, 0.9), turns.seen(2.1 * U, 0.9)
    assert turning.spectrum.rates[1] > still.spectrum.rates[2]
    found = turns.predicted([turning, still])
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert found[1] > 0.99
    assert turns.predicted([still, still]).min() > 0.99
