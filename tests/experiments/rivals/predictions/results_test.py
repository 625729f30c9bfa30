"""docs/tables/predictions.md and the heads of its three experiments, from the stored rows."""

# ruff: noqa: RUF001 (a true minus is meant)

import numpy as np
import pytest

from experiments.motion import pairs
from experiments.rivals.predictions import capacity, cross_view, theory
from experiments.rivals.predictions.environments import (
    ENVIRONMENTS,
    MOVING,
    SAME,
    SHUFFLED,
    UNTRAINED,
)
from socialjepa_jax.report import tables
from tests.experiments.rivals import stored

PAGE, TEXT = stored.page("predictions")
MODULES = {
    "table1_cross_view": cross_view, "table6_capacity": capacity, "exp_predictions": theory,
}  # fmt: skip
STORED = {name: stored.run(name) for name in MODULES}
ANGLES, WIDTHS, THEORY = (STORED[name]["rows"] for name in MODULES)
CLAIMS = {
    name: {claim.id: claim for claim in module.claims(STORED[name]["rows"])}
    for name, module in MODULES.items()
}


@pytest.mark.parametrize("name", MODULES)
def test_claims_are_judged_again(name):
    found = list(CLAIMS[name].values())
    stored.check_claims(found, STORED[name]["claims"], abs=1e-3)
    agree = sum(claim.agrees is True for claim in found)
    judged = sum(claim.agrees is not None for claim in found)
    part = TEXT.split(f"--only={name}`")[1]
    assert f"predictions {agree} agree" in part.split("**In words.**")[0]
    assert f"Of {'the other ' * (len(found) - judged > 1)}{judged} predictions" in part
    assert f"{agree} of {len(found)} claims agree" in MODULES[name].__doc__


def test_the_tables_are_those_of_the_rows():
    shown = [
        cross_view.table(ANGLES), capacity.table(WIDTHS), theory.methods_table(THEORY),
        theory.environments_table(THEORY),
    ]  # fmt: skip
    for table in shown:
        assert tables.to_markdown(table).strip() in PAGE


def angle(azimuth, measure="area", row="trained"):
    return cross_view.mean(ANGLES, azimuth, measure, row)


def width(a, measure="area", row="trained"):
    return float(np.mean(capacity.cell(WIDTHS, a, a, measure, row)["pairs"]))


def environment(name):
    return float(np.mean(theory.environment(THEORY, name, "area")["pairs"]))


def ours(experiment, claim):
    return CLAIMS[experiment][claim].ours


GAINS = [ours("table1_cross_view", f"adds/{azimuth}") for azimuth in cross_view.AZIMUTHS]
FALLS = [capacity.fall(WIDTHS, *pair, "r2") for pair in ((24, 48), (24, 96))]
LOSS = {name: theory.with_loss(THEORY, name, "r2") for name in theory.methods(THEORY)}
BARE = [width(a, row="untrained") for a in capacity.WIDTHS]
WITHIN = pairs.cell([theory.within_step(THEORY, name, "area") for name in theory.methods(THEORY)])


@pytest.mark.parametrize(
    ("sentence", "values"),
    [
        ("R² of W is {:.3f} at 40 degrees and {:.3f} at 160, the area {:.3f} and {:.3f}",
         [angle(40, "r2"), angle(160, "r2"), angle(40), angle(160)]),
        ("two agents of one camera have an area of {:.3f}", [angle(0)]),
        ("Training adds {:.3f} to {:.3f} to the area", [min(GAINS), max(GAINS)]),
        ("({:.3f} at 40 degrees, {:.3f} at 160), although",
         [angle(40, row="pixel_pca"), angle(160, row="pixel_pca")]),
        ("R² is {:.3f} at 40 degrees and {:.3f} at 160; we",
         [angle(40, "r2_beyond"), angle(160, "r2_beyond")]),
        ("lies {:.3f} (24 and 48) and {:.3f} (24 and 96) below", FALLS),
        ("the fall from 24 to 96 is {:.3f}", [ours("table6_capacity", "equal")]),
        ("by {:.3f} of R² between 24 and 96", [ours("table6_capacity", "direction/24-96")]),
        ("({:.3f} at best)", [ours("table6_capacity", "head")]),
        ("(area {:.3f} between those of 96, {:.3f} between those of 24)", [width(96), width(24)]),
        ("of all widths have {:.3f} to {:.3f}", [min(BARE), max(BARE)]),
        ("(Spearman's {:.2f} over checkpoints) and for {:.0f} other method of 12; for {:.0f} of "
         "them R² falls with the loss",
         [LOSS["ijepa"], ours("exp_predictions", "loss/r2") - 1,
          sum(rho > 0.5 for rho in LOSS.values())]),
        ("holds for {:.0f} of 12. None", [ours("exp_predictions", "loss/area")]),
        ("for {:.0f} of 12 the step", [ours("exp_predictions", "time")]),
        ("no better ({:.3f}, {:.3f} to {:.3f})", [WITHIN.value, WITHIN.low, WITHIN.high]),
        ("cost {:.3f} of area", [ours("exp_predictions", "environment/pixels in a fresh order")]),
        ("(area {:.3f}, where the same environment has {:.3f})",
         [environment(MOVING), environment(SAME)]),
        ("untrained agents ({:.3f})", [environment(UNTRAINED)]),
        ("(standard deviation {:.4f}, the first of 12", [ours("exp_predictions", "stable/paper")]),
        ("does not (the {:.0f}th)", [ours("exp_predictions", "stable/kappa")]),
        ("have {:.1f} times the condition number", [ours("exp_predictions", "kappa/shuffled")]),
        ("nothing of R² ({:.2f}) or area ({:.2f})",
         [ours("exp_predictions", f"kappa/{name}") for name in ("methods", "area")]),
    ],
)  # fmt: skip
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values).replace("-0", "−0").replace("-1", "−1") in TEXT


def test_the_words_hold():
    areas = [angle(azimuth) for azimuth in cross_view.AZIMUTHS]
    pixels = [angle(azimuth, row="pixel_pca") for azimuth in cross_view.AZIMUTHS]
    assert np.argmin(areas) == np.argmin(pixels) == cross_view.AZIMUTHS.index(120)
    assert all(np.greater(pixels, areas))
    claims = CLAIMS["table6_capacity"]
    differ = [id for id, claim in claims.items() if claim.agrees is False]
    assert differ == ["direction/24-48", "direction/48-96"]
    cells = [row.cells["r2"] for row in capacity.table(WIDTHS).rows]
    assert max(FALLS) < min(cell.high - cell.low for cell in cells)
    assert ours("exp_predictions", "stable/r2") == 1
    for name in ENVIRONMENTS[:1] + ENVIRONMENTS[2:3]:
        lost = theory.lost(THEORY, name, "area")
        assert lost.low < 1e-3 and abs(lost.value) < 0.01
    above = [environment(name) for name in ENVIRONMENTS]
    assert min(above) > environment(UNTRAINED) > environment(SHUFFLED)


def test_the_heads_state_what_was_measured():
    head = {name: stored.in_one_line(module.__doc__) for name, module in MODULES.items()}
    r2, area = ([f"{angle(at, m):.3f}" for at in (40, 160)] for m in ("r2", "area"))
    assert (
        f"R2 is {r2[0]} at 40 degrees and {r2[1]} at 160, the area {area[0]} and {area[1]}, "
        f"{angle(0):.3f} between agents of one camera" in head["table1_cross_view"]
    )
    wide = ours("table6_capacity", "direction/24-96")
    assert (
        f"R2 falls by {FALLS[0]:.3f} from 24 to 48 and by {FALLS[1]:.3f} from 24 to 96; it is "
        f"{wide:.3f} higher from 96 to 24" in head["table6_capacity"]
    )
    falls = ours("exp_predictions", "loss/r2")
    assert f"as the loss falls for {falls} of 12 methods" in head["exp_predictions"]
    assert f"have an area of {environment(MOVING):.3f} with" in head["exp_predictions"]
    assert f"which have {environment(SAME):.3f} among" in head["exp_predictions"]
