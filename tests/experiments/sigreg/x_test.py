"""Claims on the X, from made scores and rows."""

import numpy as np

from experiments.sigreg import x
from experiments.sigreg.runs import TESTS


def test_a_spike_agrees_at_a_diagonal_and_beyond_chance():
    spike = np.where(x.ANGLES == 45, 17.34, 0.0)
    elsewhere, low = np.roll(spike, 10), spike / 10
    scores = {"Epps-Pulley": spike, "Watson": elsewhere, "VCReg": low}
    claims = x._spike_claims(scores)
    assert [claim.agrees for claim in claims] == [True, False, False]
    assert [claim.ours for claim in claims] == [17.34, 17.34, 1.734]
    notes = [claim.plain()["note"] for claim in claims]
    assert notes[0] == "agrees: 17.3 null deviations at 45 degrees."
    assert notes[1].startswith("differs: 17.3 null deviations at 75 degrees; the spike is not at")
    assert notes[2].startswith("differs: 1.7 null deviations at 45 degrees; mean and variance")


def test_the_x_is_gone_where_the_squares_are_as_correlated_as_by_chance():
    left = {name: 0.5 if name == "Watson" else 0.1 for name in TESTS}
    rows = [
        {"test": name, "dim": 8, "slices": 4, "square_correlation": c, "plane_statistic": 1.5}
        for name, c in left.items()
    ]
    claims = {claim.id: claim for claim in x._unfold_claims(rows, ((8, 4),), 0.2, 1.3)}
    for name in TESTS:
        assert claims[f"{name}/the X is gone"].agrees == (name != "Watson")
    blind = claims["control/a blind test keeps the X"]
    assert (blind.ours, blind.agrees) == (0.1, False)
    assert "a correlation of 0.10; the noise" in blind.plain()["note"]
    plane = claims["Epps-Pulley/plane of the X after descent, D=8, M=4"]
    assert (plane.ours, plane.agrees) == (1.5, False)
