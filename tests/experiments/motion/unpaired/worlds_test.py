"""Claims of W from actions in other worlds on known rows, and what its plans change."""

import pytest

from experiments.motion.unpaired import experiment
from experiments.motion.unpaired.worlds import VARIANTS, claims, plan_of


def rows_of(by_actions, motor):
    """Rows of two pairs of agents in every variant; all pairs and own labels have .95."""
    rows = []
    for variant in VARIANTS:
        for pair, off in ((0, -0.01), (1, 0.01)):
            for method, steps, measure, value in (
                ("trained, paired", 2000, "W", 0.95),
                ("actions", 1000, "W", 0.0),
                ("actions", 3000, "W", by_actions[variant]),
                ("trained, own labels", None, "state", 0.95),
                ("trained, motor", 3000, "state", motor[variant]),
            ):
                rows.append({"variant": variant, "pair": pair, "method": method, "steps": steps,
                             "measure": measure, "value": value + off})  # fmt: skip
    return rows


GOOD = dict.fromkeys(VARIANTS, 0.94) | {"wide": 0.5}
READ = dict.fromkeys(VARIANTS, 0.93)


@pytest.mark.parametrize(
    ("by_actions", "motor", "fails"),
    [
        ({}, {}, set()),
        ({"policy": 0.92}, {}, {"policy/W"}),
        ({"wide": 0.8}, {}, {"wide/W"}),
        ({}, {"two toys": 0.91}, {"two toys/state in motor coordinates"}),
    ],
)
def test_claims_follow_the_rows(by_actions, motor, fails):
    found = claims(rows_of(GOOD | by_actions, READ | motor))
    assert len(found) == 2 * len(VARIANTS)
    assert {claim.id for claim in found if not claim.agrees} == fails
    assert found[0].ours == pytest.approx((GOOD | by_actions)["as before"])


def test_a_variant_changes_what_it_names_alone():
    before = experiment.plan("cpu", "equal").changes
    assert plan_of("cpu", "as before").changes == before
    assert plan_of("cpu", "wide").changes == {**before, "objective__outputs": 6}
    policy = plan_of("cpu", "policy")
    assert policy.changes == before
    assert (policy.feedback, plan_of("cpu", "wide").feedback) == (0.7, 0.0)
    assert not plan_of("cpu", "two toys").inverse
