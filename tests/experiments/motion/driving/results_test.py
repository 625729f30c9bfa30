"""The section of docs/results.md on three cameras of a drive, made again from the stored rows."""

# ruff: noqa: RUF001 (a true minus and a dash are meant)

import json
import pathlib

import numpy as np
import pytest

from experiments.motion import pairs
from experiments.motion.driving import claims, experiment
from experiments.motion.driving.claims import values
from socialjepa_jax.records import RowName
from socialjepa_jax.report import looks

ROOT = pathlib.Path(__file__).parents[4]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
STORED = json.loads((ROOT / "tests/golden/motion/driving.json").read_text("utf-8"))
ROWS = STORED["rows"]
CLAIMS = {claim["id"]: claim for claim in STORED["claims"]}
STATES = ("steering", "speed", "bend")


def cell(measure, run, row=RowName.TRAINED):
    """Mean and half of the 95 % t-interval over three repetitions."""
    found = values(ROWS, measure, run, row)
    if not np.isfinite(found).all():
        return "–"
    assert len(found) == 3
    ends = pairs.interval(found.tolist())
    return f"{ends['mean']:.2f} ± {ends['half']:.2f}".replace("-", "−")


def line(label, cells):
    return f"| {label} | {' | '.join(cells)} |"


CONTROLS = [
    (
        looks.look(row).label,
        [cell("r2", run, row) for run in experiment.CONTROLLED]
        + [cell(f"state_r2/{s}", "LeJEPA", row) for s in STATES]
        + [cell("readout_carried/steering", run, row) for run in experiment.CONTROLLED],
    )
    for row in experiment.SHOWN
]
RUNS = [
    (run, [cell("r2", run), *(cell(f"state_r2/{s}", run) for s in STATES),
           *(cell(f"readout_carried/{s}", run) for s in STATES)])
    for run in experiment.RUNS
]  # fmt: skip
CYCLES = [
    (run, [cell(f"{way}_r2", run, RowName.CYCLE) for way in ("direct", "composed", "cycle")])
    for run in experiment.CONTROLLED
]
TABLES = {"controls": CONTROLS, "runs": RUNS, "cycles": CYCLES}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_that_of_its_rows(name):
    for label, cells in TABLES[name]:
        assert line(label, cells) in RESULTS


def test_claims_are_judged_again():
    found = claims.claims(ROWS, STATES)
    assert [claim.id for claim in found] == list(CLAIMS)
    for claim in found:
        assert claim.agrees == CLAIMS[claim.id]["agrees"]
        assert claim.ours == pytest.approx(CLAIMS[claim.id]["ours"], abs=1e-12)


def test_the_claims_that_differ_are_counted_and_named():
    differ = [name for name, claim in CLAIMS.items() if not claim["agrees"]]
    assert f"{len(CLAIMS) - len(differ)} of {len(CLAIMS)} predictions agree" in TEXT
    head = " ".join(experiment.__doc__.split())
    assert f"{len(CLAIMS) - len(differ)} of {len(CLAIMS)} claims agree" in head
    section = TEXT[TEXT.index("**Three cameras of a drive**") :]
    for name in differ:
        assert f"*{name}*" in section


def mean(measure, run, row=RowName.TRAINED):
    return values(ROWS, measure, run, row).mean()


SENTENCES = [
    ("R² of W is {:.2f} for LeJEPA and {:.2f} for I-JEPA",
     [mean("r2", run) for run in experiment.CONTROLLED]),
    ("{:.2f} for eight principal components of the pixels",
     [mean("r2", "LeJEPA", RowName.PIXEL_PCA)]),
    ("{:.2f} and {:.2f} untrained",
     [mean("r2", run, RowName.UNTRAINED_HIDDEN) for run in experiment.CONTROLLED]),
    ("keep {:.2f} and {:.2f}",
     [mean("r2", run, RowName.MISMATCHED_CELL) for run in experiment.CONTROLLED]),
    ("R² of steering is {:.2f} and {:.2f}",
     [mean("state_r2/steering", run) for run in experiment.CONTROLLED]),
    ("{:.2f} by a readout of all pixels with labels",
     [mean("state_r2/steering", "LeJEPA", RowName.ALL_PIXELS)]),
    ("W rises from {:.2f} to {:.2f}, bend from {:.2f} to {:.2f}",
     [mean(m, run) for m in ("r2", "state_r2/bend") for run in ("LeJEPA", "LeJEPA, moments")]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "numbers"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, numbers):
    assert sentence.format(*numbers).replace("-0", "−0") in TEXT
