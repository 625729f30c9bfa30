"""The section of docs/results.md on the map, made again from the stored rows."""

import json
import pathlib

import pytest

from experiments.motion.phase import experiment, measured, theory
from experiments.motion.phase.cells import CELLS

ROOT = pathlib.Path(__file__).parents[4]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
STORED = json.loads((ROOT / "tests/golden/motion/motion_phase.json").read_text("utf-8"))
ROWS = STORED["rows"] + experiment.judged(STORED["rows"])
HELD_OUT = experiment.held_out(ROWS)


def test_the_constants_are_those_of_the_calibrating_cells():
    states, norms = measured.states(ROWS), measured.norms(ROWS)
    cells = [cell for cell in CELLS if not cell.held_out]
    assert theory.calibrated(cells, norms, states) == experiment.CONSTANTS


def test_predictions_are_those_that_were_stored_before_the_held_out_cells_were_run():
    before = {row["cell"]: row["predicted"] for row in STORED["predicted"]}
    found = {row["cell"]: row["predicted"] for row in HELD_OUT}
    assert set(found) <= set(before)
    assert found == pytest.approx({name: before[name] for name in found}, abs=1e-4)


def test_claims_are_judged_again():
    for claim, before in zip(experiment.claims(ROWS), STORED["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=1e-12)
