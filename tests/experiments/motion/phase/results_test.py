"""The section of docs/results.md on the map, made again from the stored rows."""

import json
import pathlib

import pytest

from experiments import findings
from experiments.motion.phase import experiment, measured, theory
from experiments.motion.phase.cells import CELLS
from experiments.motion.phase.theory import ENOUGH
from socialjepa_jax.report import tables

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


def test_the_table_is_that_of_the_rows():
    assert tables.to_markdown(experiment.table(ROWS)) in RESULTS


def state(name):
    """R2 of the state of each agent of a cell."""
    return [value for row in findings.select(ROWS, row="trained", cell=name)
            for value in row["state"]]  # fmt: skip


def predicted(name):
    (row,) = findings.select(ROWS, row="judged", cell=name)
    return row["predicted"]


RIGHT = sum(row["right"] for row in HELD_OUT)
IDENTIFIED = sum(row["measured"] >= ENOUGH for row in HELD_OUT)
EDGE = 1 / (6 * (theory.missing_penalty(3, 2) - theory.missing_penalty(3, 3)))
LOST = [r for r in findings.select(ROWS, row="trained") if min(r["state"]) < ENOUGH]
CONTROLS = [row for row in ROWS if row["row"] in ("untrained", "pixel_pca")]
SENTENCES = [
    ("{} of {} held-out cells that were run are predicted right", [RIGHT, len(HELD_OUT)]),
    ("{} of the {} are identified", [IDENTIFIED, len(HELD_OUT)]),
    ("Of {} held-out cells {} were not run",
     [len(STORED["predicted"]), len(STORED["predicted"]) - len(HELD_OUT)]),
    ("below lambda / (1 - rho) = {:.4f}", [EDGE]),
    ("{:.2f} and {:.2f} at .006 and rho = .97", state("weight/rho = 0.97/0.006")),
    ("{:.2f} and {:.2f} at .02", state("weight/rho = 0.97/0.02")),
    ("{:.2f} and {:.2f} where the oracle puts {:.2f}",
     [*state("rates/slow x, fast heading/2.2"), 2 / 3]),
    ("{:.2f} and {:.2f} at a ratio of 4", state("rates/slow x, fast heading/4")),
    ("height, at {:.2f} and {:.2f} instead of {:.2f}",
     [*state("scene/four with height/4"), predicted("scene/four with height/4")]),
    ("is at least .9 in {} of the {} pairs that are not identified",
     [sum(row["r2"] >= ENOUGH for row in LOST), len(LOST)]),
    ("pixel components hold at most {:.2f}", [max(min(row["state"]) for row in CONTROLS)]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values) in TEXT


def test_the_head_states_the_same_verdict():
    head = " ".join(experiment.__doc__.split())
    assert f"{RIGHT} of {len(HELD_OUT)} held-out cells are predicted right" in head
    trained = {row["cell"] for row in findings.select(ROWS, row="trained")}
    assert f"after {len(trained)} cells: the other {len(CELLS) - len(trained)}" in head


def test_controls_were_run_in_as_many_worlds_as_the_text_says():
    assert len({row["cell"] for row in CONTROLS}) == 2
    assert "In the two worlds where they were run, untrained agents" in TEXT
