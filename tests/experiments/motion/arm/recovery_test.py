"""The claims on the arm, judged on rows whose values are known."""

import pytest

from experiments.motion.arm import recovery


def agent(world, pair, state, trained, fresh):
    return {"world": world, "pair": pair, "row": "agent", "state": state, "shoulder": state,
            "elbow": state, "trained_apart": trained, "fresh_apart": fresh}  # fmt: skip


def arm_rows(state=0.935, w=0.95, trained=0.12, limited=0.98, best=0.949):
    rows = []
    for world, value in (("turning", state), ("limited", limited)):
        for pair in (0, 1):
            rows += [agent(world, pair, value + away, trained, 0.12) for away in (0.0, 0.01)]
            rows.append({"world": world, "pair": pair, "row": "pair", "r2": w + 0.01 * pair})
        rows.append(
            {"world": world, "pair": 0, "row": "best guess", "state": 0.95, "exact": best}
            | {"slowest": 0.941, "apart": 0.112}
        )
        rows.append({"world": world, "pair": 0, "row": "untrained", "state": 0.1, "r2": 0.2})
    return rows


def by_id(claims):
    return {claim.id: claim for claim in claims}


def test_claims_on_recovery_hold_where_the_rows_say_so():
    found = by_id(recovery.claims(arm_rows()))
    assert len(found) == 8 and all(claim.agrees for claim in found.values())
    assert found["turning/state"].ours == pytest.approx(0.935)
    assert "the mean is 0.940, the least 0.935" in found["turning/state"].note
    assert found["turning/W"].ours == pytest.approx(0.95)
    assert found["turning/no memory of its pairs"].ours == pytest.approx(1.0)
    assert found["limited/joints that end are found better"].ours == pytest.approx(0.045)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"state": 0.92}, "turning/state"),
        ({"w": 0.92}, "turning/W"),
        ({"trained": 0.1}, "turning/no memory of its pairs"),
        ({"best": 0.96}, "turning/what the paper's arm can have"),
        ({"limited": 0.93}, "limited/joints that end are found better"),
    ],
)
def test_each_claim_on_recovery_fails_where_the_rows_say_so(change, claim):
    assert by_id(recovery.claims(arm_rows(**change)))[claim].agrees is False


def test_the_table_of_the_arm_has_means_over_pairs():
    cells = recovery.cells(arm_rows(), "turning")
    assert cells["trained"]["state"]["mean"] == pytest.approx(0.94)
    assert cells["trained"]["r2"]["n"] == 2
    assert cells["untrained"]["r2"]["mean"] == 0.2 and "r2" not in cells["best guess"]
