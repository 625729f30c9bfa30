"""Factors of a policy's distribution: their worlds, their ceilings, claims on known rows."""

import jax
import numpy as np
import pytest
from scipy import stats

from experiments.motion import pairs
from experiments.motion.arm import factors
from socialjepa_jax.dynamics import joints

KEY = jax.random.key(0)
LOSSES = {"marginals": 0.09, "rates": 0.02, "turns": 0.5, "dependence": 0.01, "all": 0.6}


def factor_rows(normal=0.97, hidden=0.5, **losses):
    """Two agents a cell, of which the second is ahead by .02 in all cells."""
    rows = []
    for cell in factors.CELLS:
        loss = ({"normal": 0.0} | LOSSES | losses)[cell]
        rows.append({"cell": cell, "row": "whitening", "state": 0.9, "best": 0.95})
        rows += [
            {"cell": cell, "row": "agent", "agent": agent, "state": normal - loss + away}
            | {"shoulder": 0.1, "elbow": 0.2, "normal/shoulder": 0.1 + hidden + away}
            | {"normal/state": 0.3, "untrained/state": 0.4}
            for agent, away in enumerate((-0.01, 0.01))
        ]
    return rows


def by_id(claims):
    return {claim.id: claim for claim in claims}


def test_claims_on_factors_hold_where_the_rows_say_so():
    found = by_id(factors.claims(factor_rows()))
    assert len(found) == len(factors.LOSSES) + 3
    assert all(claim.agrees for claim in found.values())
    assert found["normal/R2"].ours == pytest.approx(0.97)
    assert found["normal/R2"].note == (
        "R2 of the state is 0.970, ± 0.127 at 95 % over agents, whose shoulders have 0.10, 0.10 "
        "and wrists 0.20, 0.20; whitening would have 0.900."
    )
    for cell, loss in LOSSES.items():
        claim = found[f"{cell}/loss of R2"]
        assert (claim.ours, claim.std) == pytest.approx((loss, 0.0))  # agents are paired
    assert found["turns/the largest single loss"].ours == pytest.approx(0.5)
    assert found["all/normal angles hide the shoulder's turns"].ours == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        *(
            ({cell: bounds[side] + away}, f"{cell}/loss of R2")
            for cell, bounds in factors.LOSSES.items()
            for side, away in ((0, -0.01), (1, 0.01))
        ),
        *(({"normal": bound}, "normal/R2") for bound in (0.93, 1.0)),
        ({"marginals": 0.51}, "turns/the largest single loss"),
        ({"hidden": 0.19}, "all/normal angles hide the shoulder's turns"),
    ],
)
def test_each_claim_on_factors_fails_where_the_rows_say_so(change, claim):
    assert by_id(factors.claims(factor_rows(**change)))[claim].agrees is False


def test_cells_that_were_not_run_are_not_judged():
    rows = [row for row in factor_rows() if row["cell"] in ("normal", "rates", "turns")]
    assert factors.measured(rows) == ["normal", "rates", "turns"]
    assert [claim.id for claim in factors.claims(rows)] == [
        "normal/R2", "rates/loss of R2", "turns/loss of R2", "turns/the largest single loss",
    ]  # fmt: skip
    assert "marginals" not in factors.claims(rows)[-1].note


def test_a_loss_is_that_of_one_seed():
    rows = factor_rows()
    for row in rows:
        if (row["cell"], row.get("agent")) == ("turns", 1):
            row["state"] -= 0.1
    assert factors.losses(rows, "turns") == pytest.approx([0.5, 0.6])
    cells = factors.table_cells(rows, "turns")
    assert cells["loss"] == pytest.approx(pairs.interval([0.5, 0.6]))
    assert (cells["whitening"]["mean"], cells["best"]["mean"]) == (0.9, 0.95)
    assert "loss" not in factors.table_cells(rows, "normal")


def test_every_cell_is_a_world_with_the_stated_numbers():
    assert np.prod(factors.EQUAL_RHO) == pytest.approx(0.915 * 0.863)
    slow, fast = -np.log(factors.POLICY_RHO)
    assert fast / slow == pytest.approx(np.log(0.982) / np.log(0.992))
    assert fast / slow == pytest.approx(2.26, abs=0.01)
    assert slow + fast == pytest.approx(-np.log(0.915 * 0.863))
    assert factors.CELLS["all"]["radians"] == pytest.approx((2.11, 2.06), abs=0.01)
    beyond = [200 * stats.norm.sf(np.pi / r) for r in (factors.STILL, factors.SHOULDER)]
    assert beyond == pytest.approx([0.003, 13.6], rel=0.1)


def test_whitening_finds_the_scores_of_the_marginals_and_the_square_of_the_slower_joint():
    """By closed form: the share of a wrist in two bumps that is linear in its score.

    Bins of the circle merge the ends of the bumps, where the score is far from linear, so the
    prediction lies above the closed form, the more the narrower the joint. With the policy's rates
    the second polynomial of the slower joint has rho^2 = .865, the faster joint .849.
    """
    found = {cell: factors._whitening(factors._experiment("smoke", cell)[1])
             for cell in ("marginals", "rates", "all")}  # fmt: skip
    score = np.linspace(-8, 8, 100_000)  # no knot at 0, where the angle jumps
    mass, angle = stats.norm.pdf(score), joints.wrist_angles(score)
    linear = (mass @ (score * angle)) ** 2 / (mass.sum() * (mass @ angle**2))
    assert linear < found["all"]["elbow"] < found["marginals"]["elbow"] < linear + 0.02
    assert found["rates"]["elbow"] == pytest.approx(0.0, abs=1e-6)
    assert found["rates"]["shoulder"] == pytest.approx(0.998, abs=0.001)
    assert found["rates"]["state"] == pytest.approx(0.499, abs=0.001)


@pytest.mark.nightly
def test_normal_angles_are_one_radian_in_every_world():
    data = factors._experiment("smoke", "all")[1]
    shots, angles = factors._normal_angles(data)
    assert angles.shape == (data.states, 2) and len(shots) == data.states
    assert np.std(angles) == pytest.approx(1.0, abs=0.3)
    turned = data.photograph((angles[:1] + 2 * np.pi) / np.float32(data.radians), 0, KEY)
    assert np.abs(turned.astype(int) - shots[:1]).max() <= 2  # full turns look alike
