"""What goes wrong in a method, a sentence each: every rule on rows to which it applies."""

# ruff: noqa: RUF001 (a true times sign is meant)

import numpy as np
import pytest

from experiments import findings
from experiments.rivals.tables import failures
from tests.experiments.rivals.tables.made import cell, with_trials

UP = [{"area": np.full((3, 3), a).tolist(), "probe_own": [a] * 6} for a in (0.1, 0.2, 0.3)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "No failure was seen: RankMe 12.0 before training, 12.0 after it"),
        ({"points": [{}, {}, {"rankme": [1.5] * 6}]}, "It collapses: RankMe 12.0 before"),
        ({"points": [{}, {}, {"rankme": [5.0] * 6}]}, "Dimensions are lost: RankMe 12.0"),
        ({"points": [UP[0], UP[2], UP[1]]}, "The area is 0.300 at step 200 and 0.200 at the end"),
        ({"points": [UP[2], UP[0], UP[1]]}, "The area is 0.300 before training and 0.200"),
        ({"points": [{}, {}, {"probe_own": [0.1] * 6}]}, "does not learn: 0.100 untrained, 0.100"),
        ({"trials": (0.6, 0.7, 0.4)}, "best of 3 trials has 0.700, that with learning rate ×0.25, "
         "temperature 0.1 0.400"),
    ],
)  # fmt: skip
def test_how_training_fails_is_read_from_the_rows(change, expected):
    assert expected in failures.how_it_fails(with_trials(**change), "ijepa")


QUIET = {"rankme": 20.0, "probe_own": 0.4, "probe_transferred": 0.3, "r2_beyond": 0.8}


@pytest.mark.parametrize(
    ("change", "gained", "expected"),
    [
        ({}, 0.1, "R² 0.900 is low for its rank: 10.0 of 48 directions are shared, RankMe 20.0."),
        ({"rankme": 3.0}, 0.1, "that of few directions: RankMe 3.0 of 48, area 0.3"),
        ({}, 0.0, "not that of training: untrained agents have 0.900"),
        ({"r2_beyond": 0.5}, 0.1, "lighting and elevation: 0.500 without them"),
        ({"probe_transferred": 0.2}, 0.1, "not carry a probe: 0.400 at home, 0.200 from"),
    ],
)
def test_what_r2_hides_is_read_from_the_rows(change, gained, expected):
    rows = with_trials({"ijepa": QUIET | {"published": 0.3} | change})
    untrained = findings.select(rows, method="ijepa", row="untrained")[0]
    untrained["r2"] = cell(0.9 - gained)
    assert expected in failures.what_r2_hides(rows, "ijepa")
