"""The claims on weights, judged on rows whose means are known."""

import pytest

from experiments.motion import weights

RHOS, GRID = (0.5, 0.9, 0.99), (0.01, 0.1)
FIXED = {0.01: (0.90, 0.97, 0.60), 0.1: (0.95, 0.60, 0.10)}  # lambda -> R2 at each rho
TRUE = (0.96, 0.97, 0.96)
MEASURED = (0.95, 0.96, 0.95)


def row(rule, rho, state, batch=128, weight=0.1, outputs=3, r2=0.98):
    return {"rule": rule, "rho": rho, "batch": batch, "lambda": weight, "outputs": outputs,
            "state_r2": state, "r2": r2}  # fmt: skip


def table(measured=MEASURED, true=TRUE, fixed=FIXED, large=(0.70, 0.65, 0.96), wide=0.90):
    """Two pairs each, 0.01 above and below the mean."""
    rows = []
    for away in (-0.01, 0.01):
        for i, rho in enumerate(RHOS):
            rows += [row("fixed", rho, fixed[w][i] + away, weight=w) for w in GRID]
            rows += [row("true", rho, true[i] + away), row("measured", rho, measured[i] + away)]
        for rule, state in zip(("measured", "debiased", "scaled"), large):
            rows += [row(rule, 0.9, 0.5, batch=64), row(rule, 0.9, state + away, batch=1024)]
        rows.append(row("measured", 0.9, 0.93, outputs=9, r2=wide + away))
    return rows


def judged(rows):
    claims = [*weights._rho_claims(rows), *weights._batch_claims(rows), weights._width_claim(rows)]
    return {claim.id: claim for claim in claims}


def test_claims_hold_where_the_rows_say_so():
    found = judged(table())
    assert {id: claim.agrees for id, claim in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 7
    values = {id: claim.ours for id, claim in found.items()}
    assert values["measured/as good as the true correlation"] == pytest.approx(0.01)
    # Best of the grid .95, .97, .60 against .95, .96, .95: at most .01 behind.
    assert values["measured/as good as the best fixed weight"] == pytest.approx(0.01)
    # Losses against the best of all rules: .05, 0, .35 and 0, .37, .85; the least of the largest.
    assert values["fixed/no weight fits every correlation"] == pytest.approx(0.35)
    assert values["debiased/batch of 1024"] == pytest.approx(0.65)
    assert values["measured/D = 9"] == pytest.approx(0.90)
    assert "0.900 after 0.980; R2 of the state 0.930" in found["measured/D = 9"].note


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"measured": (0.95, 0.92, 0.95)}, "measured/as good as the true correlation"),
        ({"measured": (0.91, 0.96, 0.95)}, "measured/as good as the best fixed weight"),
        ({"fixed": {**FIXED, 0.01: (0.94, 0.97, 0.94)}}, "fixed/no weight fits every correlation"),
        ({"large": (0.95, 0.65, 0.96)}, "measured/batch of 1024"),
        ({"large": (0.70, 0.94, 0.96)}, "debiased/batch of 1024"),
        ({"large": (0.70, 0.65, 0.90)}, "scaled/batch of 1024"),
        ({"wide": 0.96}, "measured/D = 9"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claim):
    assert judged(table(**change))[claim].agrees is False
