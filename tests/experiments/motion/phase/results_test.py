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


def each(name, latent):
    """R2 of one latent of each agent of a cell."""
    (row,) = findings.select(ROWS, row="trained", cell=name)
    return row["each"][latent]


def worse(name):
    """R2 of the state of the worse agent of a cell, measured and predicted."""
    return [min(state(name)), predicted(name)]


def predicted(name):
    (row,) = findings.select(ROWS, row="judged", cell=name)
    return row["predicted"]


RIGHT = sum(row["right"] for row in HELD_OUT)
IDENTIFIED = sum(row["measured"] >= ENOUGH for row in HELD_OUT)
EDGE = 1 / (6 * (theory.missing_penalty(3, 2) - theory.missing_penalty(3, 3)))
LOST = [r for r in findings.select(ROWS, row="trained") if min(r["state"]) < ENOUGH]
CONTROLS = [row for row in ROWS if row["row"] in ("untrained", "pixel_pca")]
WRONG = [row["cell"] for row in HELD_OUT if not row["right"]]
RATES = [row for row in HELD_OUT if row["cell"].startswith("rates/")]
SENTENCES = [
    ("{} of {} held-out cells are predicted right, {} and not the .90 aimed at",
     [RIGHT, len(HELD_OUT), f"{RIGHT / len(HELD_OUT):.2f}"[1:]]),
    ("{} of the {} are identified, so the constant answer \"identified\" is right in {}",
     [IDENTIFIED, len(HELD_OUT), f"{IDENTIFIED / len(HELD_OUT):.2f}"[1:]]),
    ("below lambda / (1 - rho) = {:.4f}", [EDGE]),
    ("{:.2f} and {:.2f} at .006 and rho = .97", state("weight/rho = 0.97/0.006")),
    ("{:.2f} and {:.2f} at .02", state("weight/rho = 0.97/0.02")),
    ("{:.2f} and {:.2f} on the arm", state("scene/arm/8")),
    ("{:.2f} with 6,000 pairs, predicted {:.2f}", worse("pool/rho = 0.7/6000")),
    ("{:.2f} at a weight of .02, predicted {:.2f}", worse("weight/rho = 0.7/0.02")),
    ("rho = .97 hold {:.2f} where {:.2f} was predicted", worse("pool/rho = 0.97/2000")),
    ("as D > n does ({:.2f}, predicted {:.2f})", worse("private/D = 4/0.4")),
    ("three others ({:.2f} and {:.2f})", each("scene/four with lamp/5", "lamp")),
    ("scene ({:.2f} and {:.2f} instead of {:.2f})",
     [*state("scene/four with height/4"), predicted("scene/four with height/4")]),
    ("at the boundary ({:.2f}, predicted {:.2f})", worse("scene/lamp/3")),
    ("see the heading ({:.2f}, predicted {:.2f})", worse("elevation/three latents/6")),
    ("{:.2f} and {:.2f} where the oracle puts {:.2f}",
     [*state("rates/slow x, fast heading/2.2"), 2 / 3]),
    ("all {} held-out cells over rates are right",
     [len(RATES) if all(row["right"] for row in RATES) else -1]),
    ("{:.2f} and {:.2f} at a ratio of 4", state("rates/slow x, fast heading/4")),
    ("is at least .9 in {} of the {} pairs that are not identified",
     [sum(row["r2"] >= ENOUGH for row in LOST), len(LOST)]),
    ("the highest of {} is {:.2f}",
     [len(CONTROLS), max(min(row["state"]) for row in CONTROLS)]),
    ("stops is predicted right in {} of {} held-out settings", [RIGHT, len(HELD_OUT)]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values) in TEXT


def test_the_head_states_the_same_verdict():
    head = " ".join(experiment.__doc__.split())
    share, constant = 100 * RIGHT / len(HELD_OUT), 100 * IDENTIFIED / len(HELD_OUT)
    assert f"{RIGHT} of {len(HELD_OUT)} held-out cells are predicted right, {share:.0f} %" in head
    assert f"the constant answer is right in {constant:.0f} %" in head
    assert {row["cell"] for row in findings.select(ROWS, row="trained")} == {c.name for c in CELLS}


def test_the_text_explains_every_cell_on_the_other_side():
    """Ten cells, by the slices that it names."""
    slices = sorted(name.partition("/")[0] for name in WRONG)
    named = ["weight", "scene", "pool", "weight", "pool", "private", "private", "scene", "scene"]
    assert slices == sorted([*named, "elevation"])
    for name in ("rates", "flicker", "width"):
        assert all(row["right"] for row in HELD_OUT if row["cell"].startswith(f"{name}/"))


def test_the_fast_private_latents_are_learned_by_neither_agent():
    r2 = [max(each("private/D = 4/0.4", f"private_{k}")) for k in (0, 1)]
    assert max(r2) < 0.01 and "(R² below 0.01)" in TEXT


def test_the_readme_states_the_constant_answer():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{IDENTIFIED / len(HELD_OUT):.2f} by a constant answer" in readme
    assert f"of {len(HELD_OUT)} held-out settings" in readme
