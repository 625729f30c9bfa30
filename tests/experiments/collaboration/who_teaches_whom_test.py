"""Settings of teachers and students, and the section of docs/results.md from the stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments.collaboration import methods, runs, scenes, table9, who_teaches_whom
from experiments.collaboration.who_teaches_whom import (
    ALONE,
    ANGLES,
    AS_BEFORE,
    FEW_IMAGES,
    IDENTITY,
    INFONCE,
    STUDENT,
    TEACHER,
    VICREG,
    WEAK,
    W,
)  # fmt: skip
from socialjepa_jax import build
from socialjepa_jax.report import tables

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
HEAD = " ".join(who_teaches_whom.__doc__.split())
GOLDEN = ROOT / "tests" / "golden" / "collaboration"
STORED = json.loads((GOLDEN / "who_teaches_whom.json").read_text("utf-8"))
BASE = json.loads((GOLDEN / "table9.json").read_text("utf-8"))["rows"]
ROWS = [
    {"setting": AS_BEFORE, **row}
    for row in BASE
    if row["method"] in (ALONE, W, IDENTITY) and row["part"] != "tuning"
] + STORED["rows"]
SETTINGS = who_teaches_whom.settings("cpu")


def students(name, method=W):
    """The experiment of the students of a setting."""
    setting = SETTINGS[name]
    chosen = methods.methods(scenes.MOTION, "cpu")[method]
    changes = {**setting.both, **setting.student}
    return methods.experiment(chosen, scenes.MOTION, "cpu", runs.students("cpu"), **changes)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_can_be_built(name):
    setting = SETTINGS[name]
    teachers = scenes.MOTION.run("cpu", (1,), setting.share, **setting.both, **setting.teacher)
    build.build(teachers)
    objective = students(name).objective.bind(teachers.objective)
    assert objective.taught_by == teachers.objective


@pytest.mark.parametrize("name", SETTINGS)
def test_students_alone_are_those_of_table9_unless_they_differ(name):
    """Only the other camera of the world changes, which a student alone never sees."""
    alone = students(name, ALONE)
    usual = scenes.MOTION.run("cpu", runs.students("cpu"))
    same = (
        alone.objective == usual.objective
        and alone.data.pool == usual.data.pool
        and alone.data.azimuths[methods.OWN] == usual.data.azimuths[methods.OWN]
    )
    assert same == (ALONE not in SETTINGS[name].names)


def curves(setting, method, scores, cost=1.0):
    """Rows of two students whose scores are given, evaluated at each step."""
    of = {"setting": setting, "method": method}
    run = {**of, "part": "run", "steps": [0, 1, 2]}
    spent = dict.fromkeys(("teacher", "coupling", "solves"), 0.0)
    return [
        {**run, "seed": 0, "scores": scores},
        {**run, "seed": 1, "scores": scores},
        {**of, "part": "cost", "own": cost, "pool": 1, "image": 1.0, **spent},
    ]


def test_costs_are_over_students_alone_of_the_same_kind():
    rows = [
        *curves(AS_BEFORE, ALONE, [0.0, 0.5, 1.0]),
        *curves(AS_BEFORE, W, [0.0, 1.0, 1.0]),
        *curves(WEAK, W, [0.0, 0.0, 1.0]),
        *curves(STUDENT, ALONE, [0.0, 0.25, 0.5], cost=4.0),
        *curves(STUDENT, W, [0.0, 0.5, 0.5], cost=4.0),
        {"setting": WEAK, "part": "teachers", "scores": [0.2, 0.4]},
    ]
    threshold = table9.SHARE
    first = threshold / 1.0  # of a step, by linear interpolation
    alone = 1.0 + (threshold - 0.5) / 0.5
    assert who_teaches_whom.ratio(rows, AS_BEFORE).mean == pytest.approx(first / alone)
    assert who_teaches_whom.ratio(rows, STUDENT).mean == pytest.approx(first / alone)
    assert who_teaches_whom.ratio(rows, WEAK).mean == pytest.approx((1.0 + threshold) / alone)
    assert who_teaches_whom.final(rows, STUDENT, ALONE) == 0.5
    assert who_teaches_whom.final(rows, WEAK, ALONE) == 1.0
    assert who_teaches_whom.teachers_of(rows, WEAK) == pytest.approx(0.3)


def cost(name, link=W):
    return who_teaches_whom.ratio(ROWS, name, link).mean


def ends(name):
    """Mean R2 of the state: teachers, students alone, by W, and by W = I."""
    teachers = who_teaches_whom.teachers_of(ROWS, name)
    return teachers, *(who_teaches_whom.final(ROWS, name, m) for m in (ALONE, W, IDENTITY))


def test_claims_are_judged_again():
    found = who_teaches_whom.claims(ROWS)
    for claim, before in zip(found, STORED["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=1e-9)
    agrees = sum(bool(claim.agrees) for claim in found)
    assert f"{agrees} of {len(found)} claims agree. **In words: a good teacher makes" in TEXT
    assert f"{agrees} of {len(found)} claims agree." in HEAD


def told(name, method=None):
    """Scores of the teachers of a setting, or of its students at the end."""
    own = [row for row in ROWS if row["setting"] == name]
    if method is None:
        return next(row["scores"] for row in own if row["part"] == "teachers")
    of = [row for row in own if row["part"] == "run" and row["method"] == method]
    return [row["scores"][-1] for row in of]


def norm(name):
    """Mean norm of the codes of a setting's teachers."""
    return np.mean([row["link/norm_y"] for row in ROWS if row.get("setting") == name
                    and row["part"] == "run" and row["method"] == W])  # fmt: skip


def test_the_table_and_the_sentences_are_those_of_the_rows():
    assert tables.to_markdown(who_teaches_whom.table(ROWS)) in RESULTS
    _, alone, w, identity = ends(FEW_IMAGES)
    few = (
        "alone ends at {:.2f} of the state, and beside a teacher at {:.2f} by W and {:.2f} by W = I"
    )
    assert few.format(alone, w, identity) in TEXT
    teacher, alone, w, identity = ends(WEAK)
    weak = "holds {:.2f} students end at {:.2f} and {:.2f}, which alone reach {:.2f}"
    assert weak.format(teacher, w, identity, alone) in TEXT
    names = (WEAK, *ANGLES)
    apart = max(np.abs(np.subtract(told(n), told(n, IDENTITY))).max() for n in names)
    assert f"its own teacher is, within {apart:.2f} for the weak" in TEXT
    angles = "the least holds {:.2f} (80 degrees) and {:.2f} (20 degrees)"
    assert angles.format(*(min(told(n)) for n in ANGLES)) in TEXT


def test_what_is_said_of_losses_and_sizes_is_that_of_the_rows():
    teacher, _, w, identity = ends(VICREG)
    vicreg = (
        "VICReg's holds {:.2f} and its codes are small (norm {:.1f}, LeJEPA's {:.1f}), and by W"
    )
    assert vicreg.format(teacher, norm(VICREG), norm(TEACHER)) in TEXT
    late = "by W students end at {:.3f} all the same, at a cost of {:.2f}, by W = I at {:.3f};"
    assert late.format(w, cost(VICREG), identity) in TEXT
    _, _, w, identity = ends(INFONCE)
    infonce = "codes (norm {:.1f}) give {:.3f} by W and {:.3f} by W = I, at {:.2f} and {:.2f} of"
    costs = cost(INFONCE), cost(INFONCE, IDENTITY)
    assert infonce.format(norm(INFONCE), w, identity, *costs) in TEXT
    sizes = "student costs {:.2f} by W, one beside a larger teacher {:.2f}"
    assert sizes.format(cost(STUDENT), cost(TEACHER)) in TEXT
    head = "With 500 pairs of images students end at {:.2f} beside a teacher, {:.2f} alone;"
    few, weak = ends(FEW_IMAGES), ends(WEAK)
    assert head.format(few[2], few[1]) in HEAD
    assert f"a teacher that holds {weak[0]:.2f} holds them at {weak[2]:.2f}." in HEAD
