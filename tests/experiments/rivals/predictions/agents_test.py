"""Spaces of unlike widths are compared on held-out rows, and agents pair by pair."""

import numpy as np
import pytest

from experiments.rivals.predictions import agents
from socialjepa_jax.alignment import evaluate, fit, matched_rank
from socialjepa_jax.evaluation.splits import Split


def test_spaces_are_compared_on_held_out_rows():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(80, width)) for width in (6, 4))
    y = y + x[:, :4]
    split = Split("instance", np.arange(50), np.arange(50, 80))
    found = agents.compared(split, np.arange(80) // 4, x, y, 3)
    expected = evaluate(fit(x[:50], y[:50]), x[50:], y[50:], back="inverse")
    for name in ("r2", "nos@10"):
        assert found[name][0] == pytest.approx(expected[name], abs=1e-6)
    assert found["dsc"][0] == pytest.approx(expected["dsc"], abs=2e-3)
    parts = (x[:50], y[:50], x[50:], y[50:])
    assert found["area"][0] == pytest.approx(matched_rank(*parts, ranks=3, shuffles=1).area)
    held = np.flatnonzero(np.arange(50, 80) // 4 != 13) + 50
    without = matched_rank(*parts[:2], x[held], y[held], ranks=3, shuffles=1).area
    assert found["area"][1][1] == pytest.approx(without)
    assert len(found["area"][1]) == len(found["r2"][1]) == 8


def test_every_agent_of_one_space_meets_every_agent_of_the_other():
    x, y = 10 * np.arange(3.0)[:, None, None], np.arange(3.0)[:, None, None]
    found = agents.grid(x, y, lambda a, b: {"sum": (float((a + b).item()), None)})
    expected = [[0, 1, 2], [10, 11, 12], [20, 21, 22]]
    assert found == {"sum": {"pairs": expected, "without": None}}
