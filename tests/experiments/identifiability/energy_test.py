"""The claims on the Dirichlet energy, judged on rows whose values are known."""

import json
import pathlib

import pytest

from experiments.identifiability import energy


def table(**changes):
    """Runs of three lengths with both losses; `changes` of the last run, with SIGReg."""
    rows = []
    for method in ("whiten", "sigreg"):
        for steps, missing in ((100, 0.3), (400, 0.05), (2000, 0.0005)):
            rows.append(
                {"world": "spiral", "n": 2, "method": method, "steps": steps, "missing": missing}
                | {"excess": 1.5 * missing, "log_det": -missing, "quotient": 1.0 + missing / 100}
            )
    rows[-1] |= changes
    return rows


def judged(rows):
    return {claim.id: claim for claim in energy.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged(table())
    assert len(found) == 6 and all(claim.agrees for claim in found.values())
    assert found["energy/at least that of a rotation"].ours == pytest.approx(0.00075)
    assert found["energy/excess covers what is not linear"].ours == pytest.approx(0.00025)
    assert "the median ratio 1.50" in found["energy/excess covers what is not linear"].note
    assert found["energy/goes to n as R2 goes to 1"].ours == pytest.approx(0.00075)
    assert "2 of 6 runs have" in found["energy/goes to n as R2 goes to 1"].note
    assert found["energy/ranks runs as R2 does"].ours == pytest.approx(1.0)
    assert found["step 1/the difference quotient is the energy"].ours == pytest.approx(0.003)
    # Of SIGReg at full length alone.
    logs = found["step 2/the mean log-determinant is that of a Gaussian code"]
    assert logs.ours == pytest.approx(-0.0005) and "-0.300 to -0.001 over all" in logs.note


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"excess": -0.002}, "energy/at least that of a rotation"),
        ({"missing": 0.01}, "energy/excess covers what is not linear"),
        ({"excess": 0.02}, "energy/goes to n as R2 goes to 1"),
        ({"excess": 0.9}, "energy/ranks runs as R2 does"),
        ({"quotient": 0.98}, "step 1/the difference quotient is the energy"),
        ({"log_det": -0.06}, "step 2/the mean log-determinant is that of a Gaussian code"),
        ({"log_det": 0.002}, "step 2/the mean log-determinant is that of a Gaussian code"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claim):
    assert judged(table(**change))[claim].agrees is False


def test_without_a_run_that_found_the_latents_the_limit_is_not_claimed():
    rows = [row for row in table() if row["steps"] < 2000]
    assert judged(rows)["energy/goes to n as R2 goes to 1"].agrees is False


ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
STORED = json.loads((ROOT / "tests" / "golden" / "id_dirichlet.json").read_text("utf-8"))


def test_claims_are_judged_again_and_counted():
    found = energy.claims(STORED["rows"])
    assert [claim.id for claim in found] == [claim["id"] for claim in STORED["claims"]]
    for claim, stored in zip(found, STORED["claims"]):
        assert claim.agrees == stored["agrees"]
        assert claim.ours == pytest.approx(stored["ours"], rel=1e-9)
    agree = sum(claim["agrees"] for claim in STORED["claims"])
    text = " ".join(RESULTS.split())
    assert f"--only=id_dirichlet`, {len(STORED['rows'])} runs" in text
    assert f"{agree} of {len(found)} claims agree" in text.split("id_dirichlet`")[1]
    ours = {claim.id.partition("/")[2]: claim.ours for claim in found}
    assert f"Rank correlation of both is {ours['ranks runs as R2 does']:.2f}," in text
    worst = f"{ours['the mean log-determinant is that of a Gaussian code']:.2f}"
    assert f"code, is {worst} at worst with SIGReg".replace("-0", "\N{MINUS SIGN}0") in text
    assert ours["the difference quotient is the energy"] < 0.01


@pytest.mark.parametrize("world", energy.WORLDS)
@pytest.mark.parametrize("loss", energy.LENGTHS)
def test_the_table_of_energies_is_that_of_its_rows(world, loss):
    """Seeds in order, at full length."""
    of_world = [r for r in STORED["rows"] if (r["world"], r["method"]) == (world, loss)]
    full = [r for r in of_world if r["steps"] == max(r["steps"] for r in of_world)]
    cells = [
        " / ".join(f"{row[key]:.4f}" for row in full) for key in ("missing", "excess", "log_det")
    ]
    assert f"| {world}, {loss} | {' | '.join(cells)} |".replace("-0", "\N{MINUS SIGN}0") in RESULTS
