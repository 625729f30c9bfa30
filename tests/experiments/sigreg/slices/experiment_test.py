"""Claims on theorems 2, 3 and 5, from made rows."""

import pytest

from experiments.sigreg.slices import experiment
from experiments.sigreg.slices.measurements import ALTERNATIVES, TESTS
from socialjepa_jax.sigreg import OFFICIAL


@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_three_points_fool_moments_but_not_epps_pulley(factor):
    level = OFFICIAL.null_level
    row = {
        "matched": 5,
        "jarque_bera": 0.5,
        "epps_pulley": factor * level,
        "epps_pulley_after_jarque_bera": factor * level,
        "epps_pulley_after_epps_pulley": 0.5 * level,
    }
    _, seen, kept, _ = experiment._moment_claims([row])
    assert seen.ours == kept.ours == pytest.approx(factor)
    assert seen.agrees == kept.agrees == (factor > 3)
    assert f"Epps-Pulley {factor:.1f} null levels" in seen.note


def test_rates_are_read_off_the_larger_half():
    errors = [
        {"dim": 2, "alpha": 1.0, "kind": kind, "slices": m, "error": m**power}
        for kind, power in (("even", -2.0), ("random", -1.0))
        for m in (4, 8, 16)
    ]
    sampling = [
        {"dim": 8, "slices": 64, "sampler": "gaussian", "error": 0.2},
        {"dim": 8, "slices": 64, "sampler": "sobol", "error": 0.1},
    ]
    rate, needed, sobol = experiment._smoothness_claims(errors, sampling)
    assert (rate.paper, rate.agrees) == (-2.0, True) and rate.ours == pytest.approx(-2.0)
    assert "M^-2.00" in rate.note and "M^-1.00" in rate.note
    assert not needed.agrees and f"alpha = {needed.ours:.0f}" in needed.note
    assert (sobol.ours, sobol.agrees) == (0.5, True)


def test_level_and_power_are_those_of_the_largest_sample():
    power = [
        {"test": t, "alternative": a, "samples": n, "power": p, "power_of_mean": 0.3}
        for t in TESTS
        for a in ALTERNATIVES
        for n, p in ((20, 0.2), (40, 0.05 if a == "null" else 0.97))
    ]
    dims = [{"alternative": "X", "dim": d, "samples": 40, "power": 4 / d} for d in (4, 64)]
    level, *powers, last = experiment._power_claims(power, dims, draws=1000)
    assert (level.ours, level.agrees) == (0.2, False)
    assert all(claim.agrees and claim.ours == 0.97 for claim in powers)
    assert len(powers) == len(ALTERNATIVES) - 1
    assert (last.ours, last.agrees) == (0.0625, False)
    assert "1.00 (D=4), 0.06 (D=64); directions cannot" in last.plain()["note"]
