"""The prediction of a cell against closed forms, samples and rules of the theory."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments.motion.phase import theory
from experiments.motion.phase.cells import CELLS, SERIES, SLICES, Cell
from experiments.motion.phase.theory import Constants
from socialjepa_jax.identifiability import spectrum
from socialjepa_jax.sigreg import OFFICIAL

APART = [20.0, 20.0, 15.0, 10.0]
NEUTRAL = Constants(noise=0.0, flicker=0.0, pairs=0.0, width=0.0, slope=0.0, ratio=1.0)


def base(**changes):
    return Cell("weight", "test", 0.0, True, **changes)


def test_the_statistic_of_a_code_without_features_is_that_of_the_quadrature():
    assert theory.missing_penalty(3, 3) == pytest.approx(OFFICIAL.null_level)
    assert theory.missing_penalty(3, 0) == pytest.approx(256 * OFFICIAL.collapse_level)


@pytest.mark.parametrize(("outputs", "kept"), [(3, 2), (5, 2)])
def test_the_statistic_of_a_collapsed_code_is_that_of_samples(outputs, kept):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(25):
        h = np.zeros((256, outputs))
        h[:, :kept] = rng.standard_normal((256, kept))
        u = rng.standard_normal((outputs, 16))
        along = h @ (u / np.linalg.norm(u, axis=0))
        phi = np.exp(1j * along[..., None] * OFFICIAL.knots).mean(0)
        found.append(256 * (np.abs(phi - OFFICIAL.target) ** 2 @ OFFICIAL.weights).mean())
    spread = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - theory.missing_penalty(outputs, kept)) < 4 * spread


def test_a_latent_collapses_below_the_ratio_at_which_it_costs_more_than_it_brings():
    gain = theory.missing_penalty(3, 2) - theory.missing_penalty(3, 3)
    for rho in (0.9, 0.97):
        # weight x gain = (1 - weight) (1 - rho) / 6
        edge = 1 / (6 * gain + 1 - rho)
        below, above = (base(rho=(rho,), ratio=edge * factor) for factor in (0.99, 1.01))
        assert_allclose(theory.held(below, 0.0)[0], 1.0, atol=1e-6)
        assert theory.held(below, 0.0)[1].sum() < 2.01
        assert_allclose(theory.held(above, 0.0)[1], 1.0, atol=1e-6)


@pytest.mark.parametrize("fast", [0.80, 0.82])
def test_whitening_loses_the_fast_latent_where_the_square_of_the_slow_one_is_slower(fast):
    cell = base(rho=(0.9, 0.9, fast))
    assert_allclose(theory.held(cell, 0.0)[0], [1, 1, float(fast > 0.9**2)], atol=1e-6)


def test_whitening_recovers_what_the_oracle_says():
    for rho in ((0.95, 0.9, 0.8), (0.98, 0.9, 0.7), (0.9, 0.9, 0.9)):
        for outputs in (1, 2, 3, 4):
            cell = base(rho=rho, outputs=outputs)
            gaussian = spectrum.copula_spectrum(2.0)
            expected = spectrum.oracle([gaussian] * 3, [-np.log(r) for r in rho], outputs)
            assert_allclose(theory.held(cell, 0.0)[0], expected.r2_per_latent, atol=1e-3)


def test_a_rival_that_costs_enough_is_refused():
    cell = base(rho=(0.9, 0.9, 0.8))
    gain = (1 - cell.weight) * (0.9**2 - 0.8) / 6  # of alignment, by the square of a slow latent
    for factor in (0.99, 1.01):
        held = theory.held(cell, factor * gain / cell.weight)[0]
        assert_allclose(held, [1, 1, float(factor > 1)], atol=1e-6)


def test_a_private_latent_as_slow_as_the_others_takes_its_share():
    cell = base(rho=(0.9, 0.9, 0.9, 0.9), private=True)
    assert_allclose(theory.factors(cell, APART, NEUTRAL)["spectrum"], 0.75, atol=1e-6)
    wide = dataclasses.replace(cell, outputs=4)
    assert_allclose(theory.factors(wide, APART, NEUTRAL)["spectrum"], 1.0, atol=1e-6)


def test_the_free_constants_act_where_they_are_said_to():
    constants = Constants(noise=3.0, flicker=4.0, pairs=300.0, width=0.2, slope=0.5, ratio=0.1)
    cell = base(rho=(0.5,), flicker=1.0, pool=600, outputs=5, ratio=0.1 * np.e)
    found = theory.factors(cell, APART, constants)
    assert_allclose(found["view"], np.square(APART[:3]) / (np.square(APART[:3]) + 25.0))
    assert_allclose(found["memory"], 1 / (1 + 1.5**2))  # 300 x 0.75 / (0.25 x 600) = 1.5
    assert_allclose(found["width"], 0.8)
    assert_allclose(found["noise"], 0.5)
    product = np.prod(list(found.values()), axis=0)
    assert theory.predicted(cell, APART, constants) == pytest.approx(product.mean())
    assert theory.cause(cell, APART, constants) == "memory"
    cube = theory.factors(base(shape="cube"), APART, constants)["view"]
    assert cube[2] == 0 and cube[0] > 0.9


def test_constants_are_found_again_from_cells_that_follow_them():
    truth = Constants(noise=4.0, flicker=6.0, pairs=3000.0, width=0.1, slope=0.3, ratio=0.3)
    cells = [c for c in CELLS if not c.held_out]
    apart = {cell.name: APART for cell in cells}
    states = {cell.name: theory.predicted(cell, APART, truth) for cell in cells}
    found = theory.calibrated(cells, apart, states)
    assert_allclose(dataclasses.astuple(found), dataclasses.astuple(truth), rtol=0.02)


def test_cells_have_names_of_their_own_and_two_thirds_or_more_are_held_out():
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert {cell.slice for cell in CELLS} == set(SLICES)
    assert 2 / 3 < np.mean([cell.held_out for cell in CELLS]) < 0.8
    for series in SERIES:
        assert set(series.calibrating) <= set(series.positions)
